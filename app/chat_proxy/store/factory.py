"""Creating the store that the settings name, with memory as its replacement."""

from pathlib import Path

from chat_proxy.store.base import Capacity, MonitoredStore, Rows, Store, StoreUnavailable
from chat_proxy.store.lease import Lease, Leases, OwnLease
from chat_proxy.store.memory import MemoryStore
from chat_proxy.store.outage import StoreUnreachable
from chat_proxy.store.sqlite.store import Notice, SqliteStore

SQLITE = "sqlite:///"
MEMORY = "memory:"


def store_of(
    url: str,
    secret: str | None,
    notice: Notice,
    capacity: Capacity = Capacity(),  # noqa: B008 - a constant
) -> Store:
    """Return the store for a URL, not opened yet; raise StoreUnavailable for an invalid URL."""
    key = secret.encode() if secret else None
    if url == MEMORY:
        return MemoryStore(key)
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        path = Path(url.removeprefix(SQLITE))
        return SqliteStore(path, key, notice=notice, capacity=capacity)
    if url.startswith("redis"):
        return _redis_store(url, key, notice)
    raise StoreUnavailable("must be sqlite:///path, redis://host:port/database or memory:")


def _redis_store(url: str, secret: bytes | None, notice: Notice) -> Store:
    try:
        # Redis is an extra, and its library is slow to load: import it only if it is configured.
        from chat_proxy.store.redis import servers as redis_servers  # noqa: PLC0415
        from chat_proxy.store.redis import store as redis  # noqa: PLC0415
    except ModuleNotFoundError:
        raise StoreUnavailable(
            "Redis needs an extra package: pip install 'chat-proxy[redis]'"
        ) from None
    servers = redis_servers.servers_of(redis_servers.RedisUrl.read(url))
    if secret is None:
        raise StoreUnavailable(
            "Redis needs CHAT_PROXY_STORE_SECRET, the same in all processes that share it"
        )
    return redis.RedisStore(servers, secret, notice=notice)


class FailOpenStore:
    """A store that may be unavailable at startup, unless it is required.

    A store that can recover (Redis) is tried again; any other is replaced by memory.
    """

    def __init__(
        self, store: Store, *, required: bool, notice: Notice, secret: str | None = None
    ) -> None:
        self._store = store
        self._required = required
        self._notice = notice
        self._secret = secret
        self.replaced_because: str | None = None
        """Why memory replaces the store; None if it does not."""

    @property
    def is_degraded(self) -> bool:
        """Whether values stored now may be missing later, or in other processes."""
        if self.replaced_because is not None:
            return True
        return isinstance(self._store, MonitoredStore) and self._store.is_in_trouble

    @property
    def log_bytes(self) -> int:
        """The size of the store's write-ahead log; 0 if there is none."""
        return self._store.log_bytes if isinstance(self._store, MonitoredStore) else 0

    async def open(self) -> None:
        """Open the store, or replace it by memory; raise StoreUnavailable if it is required."""
        try:
            await self._store.open()
        except StoreUnavailable as error:
            if isinstance(error, StoreUnreachable) and not self._required:
                return
            await self._store.close()
            if self._required:
                raise
            self._notice("open", "unavailable")
            self.replaced_because = str(error)
            self._store = MemoryStore(self._secret.encode() if self._secret else None)

    async def close(self) -> None:
        """Close the store."""
        await self._store.close()

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        """Return the values that exist."""
        return await self._store.get_many(kind, keys)

    async def put(
        self, kind: str, key: bytes, value: bytes, ttl_seconds: float, owner: str | None = None
    ) -> bool:
        """Store a value and return whether it was stored."""
        return await self._store.put(kind, key, value, ttl_seconds, owner)

    def address(self, *parts: bytes) -> bytes:
        """Return the key for these parts."""
        return self._store.address(*parts)

    async def lease(self, key: bytes, seconds: float) -> Lease | None:
        """Return the lease for this key; without shared leases this process always gets one."""
        if isinstance(self._store, Leases):
            return await self._store.lease(key, seconds)
        return OwnLease()

    async def any_held(self, keys: list[bytes]) -> bool:
        """Return whether a process holds the lease for one of these keys."""
        return isinstance(self._store, Leases) and await self._store.any_held(keys)
