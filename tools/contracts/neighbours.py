"""Servers beside the proxy, each a program of its own that runs until its column is asked."""

import asyncio
import os
import shlex
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.servers import free_port

SECONDS_TO_START = 240


@asynccontextmanager
async def neighbour(command: str, engine_url: str) -> AsyncIterator[str]:
    """Run a server before an engine until the block ends; yield its URL."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *shlex.split(command.format(engine=engine_url, port=port)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await until_open(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGTERM)
        await process.wait()


async def until_open(port: int) -> None:
    """Wait until the port accepts connections, or raise TimeoutError."""
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.5)
        else:
            writer.close()
            return
    raise TimeoutError(f"nothing listens on port {port}")
