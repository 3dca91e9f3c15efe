"""F7: behind a front that shares its connections, no request becomes part of somebody else's."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.security.fronts import FRONTS, STAMP, front
from tests.faults.security.smuggling import CASES
from tests.support.fake_model import Line, Received, answer_json, fake_model
from tests.support.live import running_proxy

pytestmark = pytest.mark.anyio

PATIENCE_SECONDS = 0.25


async def echo(received: Received, line: Line) -> None:
    """Answer with what was asked for."""
    await answer_json(line, {"target": received.target})


@pytest.mark.parametrize("name", FRONTS)
async def test_f7_behind_a_front_nobody_gets_another_s_answer(name: str, tmp_path: Path) -> None:
    """F7: the whole corpus; after each an innocent client asks over the same connection.

    Whatever reaches the upstream bears the front's stamp: there is no request but the front's.
    """
    limits = {"header_seconds": 0.4, "body_seconds": 0.4}
    async with (
        fake_model(echo) as model,
        running_proxy(model.url, limits=limits) as proxy,
        front(name, proxy.port, tmp_path) as port,
    ):
        for number, case in enumerate(CASES.values()):
            await attack(port, case.raw)
            wanted = f"/v1/models/innocent-{number}"
            assert await asked(port, wanted) == wanted

    asked_for = [r for r in model.requests if r.header(STAMP) or r.target != "/v1/models"]
    stamps = [[value for key, value in r.headers if key == STAMP] for r in asked_for]
    assert all(len(stamp) == 1 for stamp in stamps)
    assert len({stamp[0] for stamp in stamps}) == len(stamps) >= len(CASES)


async def attack(port: int, raw: bytes) -> None:
    """Send a raw request, and wait a moment for what is said to it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(raw)
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            await reader.read(65536)
    writer.transport.abort()


async def asked(port: int, target: str) -> object:
    """Return the target that somebody who asks for one is answered about."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {target} HTTP/1.1\r\nhost: proxy\r\nconnection: close\r\n\r\n".encode())
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), answer
    return json.loads(body[body.index(b"{") : body.rindex(b"}") + 1])["target"]
