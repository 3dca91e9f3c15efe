"""The proxy in this process and the demo model in another, for tracing."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import chat_proxy
from chat_proxy.cli.serve import listen, server_of
from chat_proxy.config.settings import Settings
from chat_proxy.server import create_app
from chat_proxy.telemetry.logs import configure_logging

WINDOW = 4096
_MODEL = """
import sys, uvicorn
from chat_proxy.demo.model.model import DemoModel
uvicorn.run(DemoModel(int(sys.argv[2])), port=int(sys.argv[1]), log_config=None, access_log=False)
"""


@dataclass(frozen=True)
class Served:
    """A running proxy and where its package lies."""

    url: str
    package: Path


@contextmanager
def serving_demo_model() -> Iterator[str]:
    """Run the demo model in a process of its own; yield its base URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", _MODEL, str(port), str(WINDOW)])
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int, seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("the demo model did not start")


@asynccontextmanager
async def serving_proxy(model_url: str) -> AsyncIterator[Served]:
    """Run the proxy on a free port of this event loop."""
    settings = Settings(
        _env_file=None,
        upstream={"base_url": model_url},
        registry={"file": "/nonexistent/registry.json"},
        store={"url": "memory:"},
        archive={"files": False},
        server={"port": 0, "drain_grace_seconds": 0},
    )
    configure_logging("error", "json")
    server = server_of(create_app(settings, {}), settings)
    listener = listen("127.0.0.1", 0)
    task = asyncio.create_task(server._serve([listener]))
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    port = listener.getsockname()[1]
    try:
        yield Served(f"http://127.0.0.1:{port}", Path(chat_proxy.__file__).parent)
    finally:
        server.should_exit = True
        await task
