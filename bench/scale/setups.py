"""The ways to run the proxy that are compared: one process, two workers, three replicas."""

import http.client
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import uvloop

from bench.contenders import Place, launch_chat_proxy
from bench.cpu import cpu_seconds
from bench.scale.load import Outcome, run
from bench.scale.upstream import COUNTS_PATH, SUMMARIES
from bench.servers import Launch, Server, free_port
from tests.support.redis_server import running_redis

WINDOW = 32_768
SECONDS_TO_SETTLE = 1.5
"""Summaries that were begun for nobody's answer end, and are counted."""


@dataclass(frozen=True, slots=True)
class Setup:
    """One way to run the proxy."""

    name: str
    replicas: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    needs_redis: bool = False


SETUPS = (
    Setup("one process"),
    Setup("two workers", settings={"CHAT_PROXY_SERVER_WORKERS": "2"}),
    Setup("three replicas, one Redis", replicas=3, needs_redis=True),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """What one setup did in one round."""

    setup: str
    requests: int
    seconds: float
    cpu_seconds: float
    """Of all its processes, without Redis."""
    p50_ms: float
    side_queries: int
    errors: dict[str, int]
    compactions: dict[str, int]


def measure(setup: Setup, chats: int, rounds: int, folder: Path) -> Figure:
    """Run a setup with nothing stored, send it the load, and stop it."""
    with ExitStack() as stack:
        upstream = Server(_launch_upstream(free_port()), folder)
        stack.enter_context(upstream)
        store = stack.enter_context(_store(setup, folder))
        servers = [
            stack.enter_context(Server(_launch(setup, upstream, store, folder), folder))
            for _ in range(setup.replicas)
        ]
        ports = [server.launch.port for server in servers]
        before = sum(cpu_seconds(server.session) for server in servers)
        outcome = uvloop.run(run(ports, chats, rounds))
        time.sleep(SECONDS_TO_SETTLE)
        spent = sum(cpu_seconds(server.session) for server in servers) - before
        return _figure(setup, outcome, spent, _side_queries(upstream.launch.port))


def _figure(setup: Setup, outcome: Outcome, spent: float, side_queries: int) -> Figure:
    return Figure(
        setup.name,
        outcome.requests,
        outcome.seconds,
        spent,
        outcome.p50_ms,
        side_queries,
        dict(outcome.errors),
        dict(outcome.compactions),
    )


def _launch_upstream(port: int) -> Launch:
    command = [sys.executable, "-m", "bench.scale.upstream", str(port), str(WINDOW)]
    return Launch(command, port)


def _launch(setup: Setup, upstream: Server, store: Mapping[str, str], folder: Path) -> Launch:
    place = Place(free_port(), upstream.launch.port, folder)
    archive = {"CHAT_PROXY_ARCHIVE_ENABLED": "false"}
    return launch_chat_proxy(place, settings={**archive, **store, **setup.settings})


@contextmanager
def _store(setup: Setup, folder: Path) -> Iterator[dict[str, str]]:
    """Yield the settings of a new store: SQLite as by default, or Redis for replicas."""
    if setup.needs_redis:
        with running_redis(folder) as server:
            secret = secrets.token_hex(32)
            yield {"CHAT_PROXY_STORE_URL": server.url, "CHAT_PROXY_STORE_SECRET": secret}
        return
    data = folder / f"store-{secrets.token_hex(4)}"
    data.mkdir()
    try:
        yield {"CHAT_PROXY_STORE_URL": f"sqlite:///{data}/chat-proxy.db"}
    finally:
        shutil.rmtree(data)


def _side_queries(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", COUNTS_PATH)
        counts = orjson.loads(connection.getresponse().read())
        return int(counts.get(SUMMARIES, 0))
    finally:
        connection.close()
