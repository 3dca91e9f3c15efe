"""Dialling: what is tried, in which order, and what a failure is called."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
import pytest
import trustme
from aiohappyeyeballs import AddrInfoType

from chat_proxy.http.client.connection import READ_BYTES, Connection
from chat_proxy.http.client.dialler import Dialler, TlsFailed, target_of
from chat_proxy.http.client.resolver import CachingResolver, NameNotResolved
from chat_proxy.http.write_batch import WriteBatch
from tests.support.clock import within

pytestmark = pytest.mark.anyio


def dialler_to(addresses: list[tuple[str, int]], authority: trustme.CA | None = None) -> Dialler:
    """Return a dialler for which a name has these addresses."""
    found: list[AddrInfoType] = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses
    ]

    async def look_up(_: str, __: int) -> list[AddrInfoType]:
        return found

    tls = ssl.create_default_context()
    if authority is not None:
        authority.configure_trust(tls)
    return Dialler(CachingResolver(look_up, 1), tls, new_connection, 2)


def new_connection() -> Connection:
    loop = asyncio.get_running_loop()
    buffer = memoryview(bytearray(READ_BYTES))
    return Connection(loop, lambda _: None, buffer, WriteBatch())


@asynccontextmanager
async def listening(host: str, tls: ssl.SSLContext | None, port: int = 0) -> AsyncIterator[int]:
    """Accept connections at an address of this machine."""

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(wait, host, port, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.sleep(0.05)  # for its own side of a refused handshake


def serving(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://model/v1", ("model", 80, False, b"model", b"/v1")),
        ("https://model/v1", ("model", 443, True, b"model", b"/v1")),
        ("http://[::1]:8000/v1?a=b", ("::1", 8000, False, b"[::1]:8000", b"/v1?a=b")),
        ("http://bücher.example/", ("xn--bcher-kva.example", 80, False, None, b"/")),
    ],
)
async def test_an_address_is_parsed(url: str, expected: tuple[object, ...]) -> None:
    target = target_of(httpx.URL(url))

    host, port, is_tls, authority, path = expected
    assert (target.host, target.port, target.is_tls, target.path) == (host, port, is_tls, path)
    assert authority in (None, target.authority)


async def test_the_next_address_is_tried_when_nobody_listens_at_the_first() -> None:
    async with listening("127.0.0.2", None) as port:
        dialler = dialler_to([("127.0.0.3", port), ("127.0.0.2", port)])
        connection = await dialler.dial(target_of(httpx.URL(f"http://model:{port}/v1")))

        assert not connection.is_lost
        connection.break_off()


async def test_the_next_address_is_tried_when_the_first_has_another_certificate() -> None:
    authority = trustme.CA()
    wrong, right = authority.issue_cert("other"), authority.issue_cert("model")
    async with (
        listening("127.0.0.2", serving(wrong)) as port,
        listening("127.0.0.3", serving(right), port),
    ):
        dialler = dialler_to([("127.0.0.2", port), ("127.0.0.3", port)], authority)
        connection = await dialler.dial(target_of(httpx.URL(f"https://model:{port}/v1")))

        assert not connection.is_lost
        connection.break_off()


async def test_a_certificate_that_no_address_has_is_an_error_of_tls() -> None:
    authority = trustme.CA()
    async with listening("127.0.0.2", serving(authority.issue_cert("other"))) as port:
        dialler = dialler_to([("127.0.0.2", port)], authority)
        with pytest.raises(TlsFailed):
            await dialler.dial(target_of(httpx.URL(f"https://model:{port}/v1")))


async def test_an_address_that_is_spelled_otherwise_is_dialled_once() -> None:
    """B4: 0.0.0.0 answers as 127.0.0.1, and is no other address."""
    authority = trustme.CA()
    async with listening("127.0.0.1", serving(authority.issue_cert("other"))) as port:
        dialler = dialler_to([("0.0.0.0", port)], authority)
        with pytest.raises(TlsFailed):
            await dialler.dial(target_of(httpx.URL(f"https://model:{port}/v1")))


async def test_a_bad_certificate_is_told_though_another_address_refuses() -> None:
    authority = trustme.CA()
    async with listening("127.0.0.2", serving(authority.issue_cert("other"))) as port:
        dialler = dialler_to([("127.0.0.2", port), ("127.0.0.3", port)], authority)
        with pytest.raises(TlsFailed):
            await dialler.dial(target_of(httpx.URL(f"https://model:{port}/v1")))


async def test_dials_cancelled_in_the_handshake_cost_no_other_dial() -> None:
    """BUGS 49: a descriptor that is closed too early is the next connection's."""
    authority = trustme.CA()
    async with listening("127.0.0.1", serving(authority.issue_cert("model"))) as port:
        dialler = dialler_to([("127.0.0.1", port)], authority)
        target = target_of(httpx.URL(f"https://model:{port}/v1"))
        for number in range(30):
            doomed = [asyncio.create_task(dialler.dial(target)) for _ in range(3)]
            for _ in range(number % 10):
                await asyncio.sleep(0)
            for task in doomed:
                task.cancel()
            connection = await dialler.dial(target)
            connection.break_off()
            for made in await asyncio.gather(*doomed, return_exceptions=True):
                if isinstance(made, Connection):
                    made.break_off()


async def test_a_port_without_a_listener_is_an_error_of_connecting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(httpx.ConnectError) as refused:
        await dialler_to([("127.0.0.1", port)]).dial(target_of(httpx.URL(f"http://m:{port}/")))

    assert not isinstance(refused.value, TlsFailed | NameNotResolved)


async def test_a_cancelled_dial_leaves_no_socket_open() -> None:
    """BUGS: pools that wedge after cancelled requests."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
            closed.set()
        finally:
            writer.close()

    closed = asyncio.Event()
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        target = target_of(httpx.URL(f"https://model:{port}/v1"))
        dialling = asyncio.create_task(dialler_to([("127.0.0.1", port)]).dial(target))
        await asyncio.sleep(0.1)  # in the middle of the handshake
        dialling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialling
        async with within(2):
            await closed.wait()
