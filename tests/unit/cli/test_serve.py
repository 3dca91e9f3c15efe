"""Running for real, in this very process: signals come to it as they would to the command."""

import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.cli.serve import METRICS_DIR, listen, serve, serve_here
from chat_proxy.errors import BadConfiguration
from chat_proxy.http.process import workers
from chat_proxy.http.process.workers import CANNOT_START, Workers
from tests.support.live import settings


@contextmanager
def terminated(when: object, seconds: float = 300) -> Iterator[None]:
    """Send SIGTERM to this process as soon as the condition holds."""

    def wait_and_send() -> None:
        until = time.monotonic() + seconds
        while not when() and time.monotonic() < until:  # type: ignore[operator]
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=wait_and_send)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def is_healthy(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 30) as client:
        client.settimeout(30)
        client.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        return client.recv(100).startswith(b"HTTP/1.1 200 ")
    return False


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(METRICS_DIR, "")
    yield
    gc.unfreeze()


@pytest.mark.parametrize("count", [1, 2])
def test_a_server_runs_until_a_signal_comes(count: int) -> None:
    """E1."""
    chosen = settings(server={"workers": count}, log={"level": "error"})
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]

    with terminated(lambda: is_healthy(port)):
        code = serve(chosen, {}, listener)

    assert code == 0
    listener.close()
    assert not is_healthy(port)


def test_a_configuration_that_broke_meanwhile_ends_a_worker(tmp_path: Path) -> None:
    """E11."""
    broken = tmp_path / "registry.json"
    broken.write_text("{")
    chosen = settings(registry={"file": broken}, log={"level": "error"})

    with listen("127.0.0.1", 0) as listener, pytest.raises(SystemExit) as caught:
        serve_here(chosen, {}, listener)

    assert caught.value.code == CANNOT_START


@pytest.mark.parametrize("host", ["127.0.0.1", "203.0.113.1", "not a host"])
def test_a_port_that_cannot_be_had_is_a_bad_configuration(host: str) -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(BadConfiguration, match="cannot listen"):
        listen(host, taken.getsockname()[1])


# Workers


class Counts:
    """What is told about workers that have ended."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.deaths: list[int] = []

    def workers(self, count: int, target: Callable[..., Any], *args: object) -> Workers:
        return Workers(count, target, args, on_exit=self.pids.append, on_deaths=self.deaths.append)


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_workers_run_until_a_signal_comes() -> None:
    """E4."""
    with terminated(lambda: len(active_children()) == 2):
        counts = Counts()
        code = counts.workers(2, time.sleep, 30).run()

    assert code == 0
    assert active_children() == []
    assert (len(counts.pids), counts.deaths) == (2, [])


def test_a_signal_is_heard_while_workers_are_still_being_started() -> None:
    with terminated(lambda: len(active_children()) >= 1):
        team = Counts().workers(60, time.sleep, 30)
        code = team.run()

    assert code == 0
    assert len(team._first) < 60


def test_a_worker_that_dies_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E4."""
    monkeypatch.setattr(workers, "RESTART_PAUSE_SECONDS", 0.05)
    log, counts = tmp_path / "log", Counts()

    with terminated(lambda: lines(log) >= 3):
        code = counts.workers(1, os.system, f"echo up >> {log}").run()

    assert code == 0
    assert counts.deaths[:2] == [1, 2]
    assert len(counts.pids) >= 3


def test_workers_that_cannot_start_end_everything() -> None:
    """E4."""
    assert Counts().workers(2, sys.exit, CANNOT_START).run() == CANNOT_START
