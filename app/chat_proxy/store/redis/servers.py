"""The Redis servers of a URL: one server, a master found through Sentinels, or a cluster.

    redis://[user:password@]host[:6379][/database]
    redis+sentinel://[user:password@]host[:26379][,host…]/service[/database][?sentinel_password=…]
    redis+cluster://[user:password@]host[:6379][,host…]

`rediss` instead of `redis` uses TLS; `?ca=`, `cert=` and `key=` name certificate files.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from chat_proxy.store.base import StoreUnavailable

CONNECTIONS = 32
CONNECT_SECONDS = 2.0
# A server that hangs must leave time to ask the next one: a Sentinel within the time that a request
# waits for the store, a cluster node within the time of the probe that ends an outage.
SENTINEL_SECONDS = 0.08
NODE_SECONDS = 0.5
_PORTS = {"": 6379, "cluster": 6379, "sentinel": 26379}
_FILES = {"ca": "ssl_ca_certs", "cert": "ssl_certfile", "key": "ssl_keyfile"}

Address = tuple[str, int]


class Servers(Protocol):
    """One or several Redis servers behind the same interface."""

    async def get(self, names: list[str]) -> list[bytes | None]:
        """Return the values in the order of the names; None for a missing key or another type."""
        ...

    async def run(self, *command: str | bytes | int) -> Any:
        """Run a command on one key."""
        ...

    async def ping(self) -> None:
        """Return if all servers answer, else raise."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class OneServer:
    """One Redis server, or the master that Sentinels name."""

    def __init__(self, client: Redis, sentinel: Sentinel | None = None) -> None:
        # The library's annotations do not cover commands.
        self._client: Any = client
        self._sentinel = sentinel

    async def get(self, names: list[str]) -> list[bytes | None]:
        """Return the values with one command."""
        return cast("list[bytes | None]", await self._client.execute_command("MGET", *names))

    async def run(self, *command: str | bytes | int) -> Any:
        """Run a command."""
        return await self._client.execute_command(*command)

    async def ping(self) -> None:
        """Return if the server answers, else raise."""
        await self._client.execute_command("PING")

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()
        if self._sentinel is not None:
            await self._sentinel.aclose()


class Cluster:
    """A Redis Cluster."""

    def __init__(self, client: RedisCluster) -> None:
        self._client: Any = client

    async def get(self, names: list[str]) -> list[bytes | None]:
        """Return the values with one pipeline for each server, where no command crosses slots."""
        return cast("list[bytes | None]", await self._client.mget_nonatomic(names))

    async def run(self, *command: str | bytes | int) -> Any:
        """Run a command on the server of its key."""
        return await self._client.execute_command(*command)

    async def ping(self) -> None:
        """Return if all masters answer, else raise."""
        await self._client.execute_command("PING", target_nodes=RedisCluster.PRIMARIES)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()
        # After a fault the library considers itself closed and leaves its connections open.
        for kind in ("nodes_cache", "startup_nodes"):
            await self._client.nodes_manager.aclose(kind)


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """The parts of a Redis URL."""

    kind: str
    addresses: list[Address]
    path: list[str]
    login: dict[str, str] = field(repr=False)
    sentinel_password: str | None = field(repr=False)
    tls: dict[str, Any]

    @classmethod
    def read(cls, url: str) -> "RedisUrl":
        """Parse a URL, or raise StoreUnavailable with a message that contains no password."""
        try:
            parts, netloc = _split(url)
            scheme, _, kind = parts.scheme.partition("+")
            user, _, hosts = netloc.rpartition("@")
            addresses = [_address(host, _PORTS[kind]) for host in hosts.split(",")]
        except (ValueError, KeyError):
            raise StoreUnavailable("a Redis URL must be redis://host:port/database") from None
        if scheme not in ("redis", "rediss"):
            raise StoreUnavailable("a Redis URL must begin with redis or rediss")
        if not kind and len(addresses) > 1:
            raise StoreUnavailable("several hosts need redis+cluster:// or redis+sentinel://")
        options = _options(parts, {"sentinel_password"} if kind == "sentinel" else set(), scheme)
        return cls(
            kind=kind,
            addresses=addresses,
            path=[unquote(part) for part in parts.path.split("/") if part],
            login=_login(user),
            sentinel_password=options.pop("sentinel_password", None),
            tls={"ssl": True, **options} if scheme == "rediss" else {},
        )


def _split(url: str) -> tuple[SplitResult, str]:
    """Split a URL into the rest and its hosts: newer Pythons refuse host lists with IPv6."""
    head, _, rest = url.partition("://")
    netloc = re.split("[/?#]", rest, maxsplit=1)[0]
    return urlsplit(f"{head}://{rest[len(netloc) :]}"), netloc


def servers_of(url: RedisUrl) -> Servers:
    """Return the servers of a URL, not connected yet, or raise StoreUnavailable."""
    if url.kind == "cluster":
        return _cluster(url)
    if url.kind == "sentinel":
        return _sentinel(url)
    (host, port) = url.addresses[0]
    database = _database(url.path)
    client = Redis(host=host, port=port, db=database, **_connection(url), retry=_no_retry())
    return OneServer(client)


def _cluster(url: RedisUrl) -> Cluster:
    if _database(url.path):
        raise StoreUnavailable("a Redis Cluster has only database 0")
    nodes = [ClusterNode(host, port) for host, port in url.addresses]
    connection = {**_connection(url), **_at_most(NODE_SECONDS)}
    return Cluster(RedisCluster(startup_nodes=nodes, **connection, retry=_no_retry()))


def _sentinel(url: RedisUrl) -> OneServer:
    if not url.path:
        raise StoreUnavailable("redis+sentinel://host/service must name the service")
    login = {"password": url.sentinel_password} if url.sentinel_password else {}
    plain = {"protocol": 2, "driver_info": None, "retry": _no_retry(), **url.tls}
    settings = {**plain, **login, **_at_most(SENTINEL_SECONDS)}
    sentinel = Sentinel(url.addresses, sentinel_kwargs=settings)  # type: ignore[no-untyped-call]
    service, *rest = url.path
    connection = {**_connection(url), "retry": _no_retry()}
    client = sentinel.master_for(service, db=_database(rest), **connection)
    return OneServer(client, sentinel)


def _connection(url: RedisUrl) -> dict[str, Any]:
    """Return the options of every connection.

    No timeout for answers: the caller sets it. The older protocol and no client information, so
    that a new connection costs no round trip besides its login.
    """
    return {
        **url.login,
        **url.tls,
        "protocol": 2,
        "driver_info": None,
        "socket_timeout": None,
        "socket_connect_timeout": CONNECT_SECONDS,
        # One more than requests use at once, for the probe that ends an outage.
        "max_connections": CONNECTIONS + 1,
    }


def _at_most(seconds: float) -> dict[str, float]:
    return {"socket_timeout": seconds, "socket_connect_timeout": seconds}


def _no_retry() -> Retry:
    return Retry(NoBackoff(), 0)


def _address(text: str, default_port: int) -> Address:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError(text)
    return parts.hostname, parts.port or default_port


def _login(user: str) -> dict[str, str]:
    name, _, password = user.partition(":")
    login = {"username": unquote(name), "password": unquote(password)}
    return {key: value for key, value in login.items() if value}


def _database(path: list[str]) -> int:
    if not path:
        return 0
    if len(path) > 1 or not (path[0].isascii() and path[0].isdigit()):
        raise StoreUnavailable("a Redis database must be a number")
    return int(path[0])


def _options(parts: SplitResult, allowed: set[str], scheme: str) -> dict[str, str]:
    """Return the options of a URL under the library's names for them."""
    files = _FILES if scheme == "rediss" else {}
    options = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in files and not Path(value).is_file():
            raise StoreUnavailable(f"{name}: there is no file {value}")
        if name not in files and name not in allowed:
            raise StoreUnavailable(f"a {parts.scheme}:// URL has no option {name!r}")
        options[files.get(name, name)] = value
    return options
