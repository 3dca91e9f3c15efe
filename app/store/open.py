"""From the setting to a store."""

from pathlib import Path

from app.store.base import Rows, Store, StoreUnavailable
from app.store.memory import MemoryStore
from app.store.sqlite import MAX_BYTES, Notice, SqliteStore

SQLITE = "sqlite:///"
MEMORY = "memory:"


def store_of(url: str, secret: str | None, notice: Notice, max_bytes: int = MAX_BYTES) -> Store:
    """Return the store that a URL names, not opened yet; raise StoreUnavailable if none does."""
    key = secret.encode() if secret else None
    if url == MEMORY:
        return MemoryStore(key)
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        path = Path(url.removeprefix(SQLITE))
        return SqliteStore(path, key, notice=notice, max_bytes=max_bytes)
    scheme = url.partition(":")[0]
    if scheme in ("redis", "rediss"):
        raise StoreUnavailable("there is no Redis store yet; use sqlite:///path or memory:")
    raise StoreUnavailable("must be sqlite:///path or memory:")


class ForgivingStore:
    """A store that falls back to memory when its own place cannot be had, unless it is required."""

    def __init__(
        self, store: Store, *, required: bool, notice: Notice, secret: str | None = None
    ) -> None:
        self._store = store
        self._required = required
        self._notice = notice
        self._secret = secret
        self.is_degraded = False

    async def open(self) -> None:
        """Open the store, or replace it by memory; raise StoreUnavailable if it is required."""
        try:
            await self._store.open()
        except StoreUnavailable:
            await self._store.close()
            if self._required:
                raise
            self._notice("open", "unavailable")
            self.is_degraded = True
            self._store = MemoryStore(self._secret.encode() if self._secret else None)

    async def close(self) -> None:
        """Let go."""
        await self._store.close()

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        """Return the values that are there."""
        return await self._store.get_many(kind, keys)

    async def put(self, kind: str, key: bytes, value: bytes, ttl_seconds: float) -> bool:
        """Keep a value; return whether it was kept."""
        return await self._store.put(kind, key, value, ttl_seconds)

    def address(self, *parts: bytes) -> bytes:
        """Return the key that stands for these parts."""
        return self._store.address(*parts)
