"""Open connections to upstreams: resolve the name, race the addresses, shake hands."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import httpx
from aiohappyeyeballs import AddrInfoType, start_connection

from chat_proxy.http.client.connection import Connection
from chat_proxy.http.client.resolver import CachingResolver

# RFC 8305: how long one address has before the next one is tried beside it.
NEXT_ADDRESS_SECONDS = 0.25
DEFAULT_PORTS = {"http": 80, "https": 443}


class TlsFailed(httpx.ConnectError):
    """The certificate or the handshake was refused."""


@dataclass(frozen=True, slots=True)
class Target:
    """An upstream's address, parsed once: what is dialled, and what the request line says."""

    host: str
    port: int
    is_tls: bool
    key: str
    """Names the address: connections with the same key serve the same requests."""
    authority: bytes
    path: bytes


def target_of(url: httpx.URL) -> Target:
    """Parse an address."""
    host = url.raw_host.decode("ascii")
    port = url.port or DEFAULT_PORTS[url.scheme]
    key = f"{url.scheme}://{host}:{port}"
    return Target(host, port, url.scheme == "https", key, url.netloc, url.raw_path)


class Dialler:
    """Open connections whose protocol is made by `new_connection`; make it in the event loop."""

    def __init__(
        self,
        resolver: CachingResolver,
        tls: ssl.SSLContext,
        new_connection: Callable[[], Connection],
        timeout_seconds: float,
    ) -> None:
        self._resolver = resolver
        self._tls = tls
        self._new_connection = new_connection
        self._timeout_seconds = timeout_seconds
        self._loop = asyncio.get_running_loop()

    async def dial(self, target: Target) -> Connection:
        """Return a new connection to a target, or raise httpx's error for what went wrong."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._dial(target)
        except (OSError, RuntimeError) as error:  # uvloop raises both while it connects
            raise as_httpx(error) from error

    async def close(self) -> None:
        """Stop resolving names."""
        await self._resolver.close()

    async def _dial(self, target: Target) -> Connection:
        addresses = await self._resolver.resolve(target.host, target.port)
        sock = await self._connect(addresses)
        peer = sock.getpeername()
        try:
            return await self._shake_hands(sock, target)
        except OSError as refused:
            # One address of several may serve another certificate, or none.
            others = [address for address in addresses if address[4][:2] != peer[:2]]
            if not others or len(others) == len(addresses):
                raise
            try:
                return await self._shake_hands(await self._connect(others), target)
            except OSError:
                raise refused from None

    async def _connect(self, addresses: list[AddrInfoType]) -> socket.socket:
        """Return a socket that is connected to the first address that answers."""
        return await start_connection(
            addresses, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS, loop=self._loop
        )

    async def _shake_hands(self, sock: socket.socket, target: Target) -> Connection:
        """Make a connection of a connected socket, with TLS where the target wants it."""
        try:
            _, connection = await self._loop.create_connection(
                self._new_connection,
                sock=sock,
                ssl=self._tls if target.is_tls else None,
                server_hostname=target.host.rstrip(".") if target.is_tls else None,
            )
        except BaseException:
            # Not closed: a loop that is still ending the handshake uses the descriptor, and another
            # socket would get its number. The loop's transport closes it.
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            raise
        return connection


def as_httpx(error: OSError | RuntimeError) -> httpx.TransportError:
    """Return the httpx error that means the same as a failure to connect."""
    for foreign, meaning in _MEANINGS:
        if isinstance(error, foreign):
            return meaning(type(error).__name__)
    return httpx.ConnectError(type(error).__name__)


# Read from the top: the first match is taken, so special errors come before general ones.
_MEANINGS: tuple[tuple[type[OSError], type[httpx.TransportError]], ...] = (
    (TimeoutError, httpx.ConnectTimeout),
    (ssl.SSLError, TlsFailed),
)
