"""Processes of the benchmark: started in a session of their own, and killed whatever happens."""

import http.client
import os
import signal
import socket
import subprocess
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

REPOSITORY = Path(__file__).resolve().parent.parent
SECONDS_TO_GET_READY = 90
SECONDS_TO_STOP = 5
SECONDS_BETWEEN_LOOKS = 0.005


class ServerFailed(Exception):
    """A server ended, or was not ready in time."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server is started, how one knows that it is ready, and how it is called."""

    command: list[str]
    port: int
    ready_path: str = "/v1/models"
    environment: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


class Server(AbstractContextManager["Server"]):
    """A running server; its output goes to a file, and it sees nothing of our environment."""

    def __init__(self, launch: Launch, folder: Path) -> None:
        self.launch = launch
        self.ready_after_seconds = 0.0
        self._folder = folder
        self._log = folder / f"{launch.port}.log"

    def __enter__(self) -> Self:
        """Start it and wait until it is ready."""
        began = time.perf_counter()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self.launch.command,
                cwd=REPOSITORY,
                env={"PATH": os.defpath, "HOME": str(self._folder), **self.launch.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._wait_until_ready(began + SECONDS_TO_GET_READY)
        except BaseException:
            self.stop()
            raise
        self.ready_after_seconds = time.perf_counter() - began
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    @property
    def session(self) -> int:
        """The id that all processes of this server share."""
        return self._process.pid

    def failure(self, when: str) -> ServerFailed:
        """Return an error that says whether the server still runs, and its last words."""
        code = self._process.poll()
        state = f"ended with {code}" if code is not None else "runs but does not answer"
        last_words = self._log.read_text(errors="replace").strip()[-600:] or "(no output)"
        return ServerFailed(f"{' '.join(self.launch.command)} {state} {when}: {last_words}")

    def stop(self) -> None:
        """End the whole group: kindly, then for certain."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.session, number)
        except ProcessLookupError:
            return

    def _wait_until_ready(self, deadline: float) -> None:
        while not self._is_ready():
            if self._process.poll() is not None or time.perf_counter() > deadline:
                raise self.failure("before it was ready")
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.launch.port, timeout=5)
        headers = {"authorization": "Bearer sk-bench", **self.launch.headers}
        try:
            connection.request("GET", self.launch.ready_path, headers=headers)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
