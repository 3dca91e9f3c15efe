"""Row B30: upstreams that answer before they have read a request, and read no further."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from tests.faults.faulty import whole
from tests.support.clock import within
from tests.support.live import Proxy, chat_body, chat_request, raw_client, running_proxy

pytestmark = pytest.mark.anyio

LIMIT_SECONDS = 2


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@asynccontextmanager
async def impatient(status: str, authority: trustme.CA | None) -> AsyncIterator[str]:
    """An upstream that answers the first chat on every connection by its head alone."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(whole(status, b'{"error":{"message":"too much"}}'))
        if b"/models" not in head:
            await over.wait()
        writer.transport.abort()

    tls = None
    if authority is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(tls)
    over = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}/v1"
        over.set()
        await asyncio.sleep(0.05)


async def status_of(proxy: Proxy, size: int) -> int:
    """Return the status of the answer to a chat of this size."""
    body = chat_body(messages=[{"role": "user", "content": "x" * size}])
    async with raw_client(proxy) as client:
        client.writer.write(chat_request(body))
        return (await client.answer()).status


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    ("status", "size"),
    [("413 X", 21_000_000), ("413 X", 50_000), ("401 X", 21_000_000), ("401 X", 1_000_000)],
)
async def test_b30_the_next_request_does_not_wait_behind_an_unread_one(
    status: str, size: int, is_tls: bool, authority: trustme.CA, tmp_path: Path
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    options = {
        "ca_file": tmp_path / "ca.pem",
        "first_byte_timeout_seconds": LIMIT_SECONDS,
        "keep_alive_seconds": 60,
    }
    async with (
        within(40),
        impatient(status, authority if is_tls else None) as url,
        running_proxy(url, upstream=options, mode="off") as proxy,
    ):
        statuses = [await status_of(proxy, size), await status_of(proxy, 10)]

    assert statuses == [int(status[:3])] * 2
