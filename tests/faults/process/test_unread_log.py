"""Row E12: a reader of the log that stops reading."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.command import ROOT, environment

pytestmark = pytest.mark.anyio

# Each is a line of the log, and a pipe holds about 200 of them.
REQUESTS = 2_000
SECONDS = 20
UNKNOWN = b"GET /v1/unknown HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


@asynccontextmanager
async def serving(port: int, errors: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the proxy with its log in this pipe."""
    variables = {"SERVER_PORT": str(port), "STORE_URL": "memory:", "LOG_LEVEL": "info"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "chat_proxy", "serve"),
        env=environment(variables) | {"PYTHONPATH": str(ROOT / "app")},
        stderr=errors,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def connection_to(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as soon as the proxy listens."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                return await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                await asyncio.sleep(0.05)


async def answered(port: int) -> int:
    """Return how many of the requests are answered in time, one after another."""
    reader, writer = await connection_to(port)
    count = 0
    try:
        async with asyncio.timeout(SECONDS):
            while count < REQUESTS:
                writer.write(UNKNOWN)
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].split()[0]
                await reader.readexactly(int(length))
                count += 1
    except TimeoutError:
        return count
    finally:
        writer.transport.abort()
    return count


async def test_e12_a_log_that_nobody_reads_stops_no_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    unread, errors = os.pipe()
    async with serving(port, errors) as process:
        os.close(errors)
        count = await answered(port)
        with os.fdopen(unread, "rb") as log:
            process.terminate()
            told = [json.loads(line) for line in await asyncio.to_thread(log.readlines)]
        code = await process.wait()

    assert (count, code) == (REQUESTS, 0)
    requests = sum(line["message"] == "request" for line in told)
    dropped = sum(line["lines"] for line in told if line["message"] == "log lines were dropped")
    assert requests + dropped >= REQUESTS
