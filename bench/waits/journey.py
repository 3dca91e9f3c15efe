"""One conversation from its first request to the restart of the proxy, beside another client."""

import http.client
import json
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self, cast

from bench.contenders import Place, launch_chat_proxy
from bench.cpu import cpu_seconds, waited_seconds
from bench.servers import REPOSITORY, Launch, Server, free_port
from bench.waits.histories import History, count_tokens

THRESHOLD = 0.8
BELOW_TRIGGER = 0.93
"""The share of the trigger that the conversation has at first."""
ESTIMATE = 1.1
"""How much higher than the tokenizer's count an estimate is before it is calibrated."""
CROSSING_BYTES = 0.12
MAX_TOKENS = 512
IDLE_SHARE = 0.45
SECONDS_BETWEEN_LOOKS = 0.4
SECONDS_TO_SETTLE = 60.0
SHORTEST_SECONDS = 0.001
QUIET_SECONDS = 1.0

QUIET = "nobody else"
PHASES = ("cold", "warm", "crossing", "folding", "reuse", "after restart")


@dataclass(frozen=True, slots=True)
class Step:
    """What one request of the conversation cost: its own client, the other one, the proxy."""

    own: float
    """Seconds of the answer beyond those of the upstream alone."""
    waits: list[float]
    """Seconds that each small chat of the other client took meanwhile."""
    cpu: float
    """CPU seconds of the proxy, the other client's chats included."""
    label: str
    """What the proxy says that it did."""


class OtherClient(AbstractContextManager["OtherClient"]):
    """The second client, a process of its own."""

    def __init__(self, port: int, *pids: int) -> None:
        arguments = map(str, (port, *pids))
        self._command = [sys.executable, "-m", "bench.waits.other_client", *arguments]

    def __enter__(self) -> Self:
        """Start it."""
        self._process = subprocess.Popen(
            self._command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.period()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        cast("IO[str]", self._process.stdin).close()
        self._process.wait()
        cast("IO[str]", self._process.stdout).close()

    def period(self) -> list[float]:
        """Return the waits since the last call."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("\n")
        stdin.flush()
        return [float(wait) for wait in json.loads(stdout.readline())]


class Journey:
    """One conversation of some size, and where it is sent.

    With the process of the upstream, the other client's waits are what proxy and upstream caused
    by computing, whoever else has the cores.
    """

    def __init__(
        self,
        size: int,
        seed: str,
        upstream_port: int,
        folder: Path,
        app: Path,
        upstream_pid: int | None = None,
    ) -> None:
        self._history = History(seed)
        self._history.grow(size)
        self._size = size
        self._upstream_port = upstream_port
        self._upstream_pid = upstream_pid
        self._folder = folder
        tokens = count_tokens(self._history.messages)
        trigger = tokens * ESTIMATE / BELOW_TRIGGER
        self._place = Place(free_port(), upstream_port, folder)
        self._launch = launched(self._place, int(trigger / THRESHOLD) + MAX_TOKENS, folder, app)

    def run(self) -> dict[str, Step]:
        """Return what each phase cost."""
        found = self.until_reuse()
        with Server(self._launch, self._folder) as proxy, self._other_client(proxy) as other:
            time.sleep(QUIET_SECONDS / 2)
            self._history.ask()
            found["after restart"] = self._step(proxy, other)
        return found

    def until_reuse(self) -> dict[str, Step]:
        """Return what each phase before the restart cost, and a quiet time before them."""
        found: dict[str, Step] = {}
        with Server(self._launch, self._folder) as proxy, self._other_client(proxy) as other:
            time.sleep(QUIET_SECONDS)
            found[QUIET] = Step(0, other.period(), 0, "")
            found["cold"] = self._step(proxy, other)
            self._history.ask()
            found["warm"] = self._step(proxy, other)
            self._history.grow(int(self._size * CROSSING_BYTES))
            found["crossing"] = self._step(proxy, other)
            self._history.ask()
            found["folding"] = self._step(proxy, other)
            self._history.ask()
            found["reuse"] = self._step(proxy, other)
        return found

    def _other_client(self, proxy: Server) -> OtherClient:
        pids = () if self._upstream_pid is None else (proxy.session, self._upstream_pid)
        return OtherClient(self._place.port, *pids)

    def _step(self, proxy: Server, other: OtherClient) -> Step:
        """Send the conversation; the period ends when the proxy has nothing more to do for it."""
        body = self._history.body()
        alone = min(timed(self._upstream_port, body)[0] for _ in range(3))
        other.period()
        before = cpu_seconds(proxy.session)
        own, label = timed(self._place.port, body)
        settle(proxy)
        return Step(own - alone, other.period(), cpu_seconds(proxy.session) - before, label)


def launched(place: Place, window: int, folder: Path, app: Path) -> Launch:
    """Return how a proxy with a store on disk and with this window is started from a checkout."""
    launch = launch_chat_proxy(
        place,
        settings={
            "CHAT_PROXY_BUDGET_CONTEXT_WINDOW": str(window),
            "CHAT_PROXY_STORE_URL": f"sqlite:///{folder}/{place.port}.db",
            "CHAT_PROXY_ARCHIVE_DIR": str(folder / f"{place.port}-archive"),
        },
    )
    launch.environment["PYTHONPATH"] = str(app)
    return launch


def timed(port: int, body: bytes) -> tuple[float, str]:
    """Return the seconds of an answer, and what the proxy says that it did."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"content-type": "application/json", "authorization": "Bearer sk-asking"}
    connection.connect()
    began = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", body, headers)
    answer = connection.getresponse()
    answer.read()
    seconds = time.perf_counter() - began
    connection.close()
    if answer.status != 200:
        sys.exit(f"port {port} answered {answer.status}")
    return seconds, answer.getheader("x-chat-proxy-compaction") or ""


def settle(proxy: Server) -> None:
    """Wait until the proxy does nothing more than to answer the other client.

    Its small chats take a fifth of a core; a compaction takes all of one, as far as it gets it.
    """
    deadline = time.perf_counter() + SECONDS_TO_SETTLE
    busy = 1.0
    while busy > IDLE_SHARE and time.perf_counter() < deadline:
        began, used, waited = usage(proxy)
        time.sleep(SECONDS_BETWEEN_LOOKS)
        now, used_now, waited_now = usage(proxy)
        lost = max(waited_now[it] - waited.get(it, 0.0) for it in waited_now)
        busy = (used_now - used) / max(now - began - lost, SHORTEST_SECONDS)


def usage(proxy: Server) -> tuple[float, float, dict[Path, float]]:
    """Return the time, the CPU seconds so far, and how long each thread has waited for a core."""
    return time.perf_counter(), cpu_seconds(proxy.session), waited_seconds(proxy.session)
