"""A store in the memory of the process."""

import secrets
import time
from collections.abc import Callable

from chat_proxy.caches import LruCache
from chat_proxy.store.base import Addresses, Rows

MAX_BYTES = 64 * 1024 * 1024
ROW_BYTES = 256


class MemoryStore:
    """A bounded cache of values by kind and key, which evicts the least recently used.

    All tenants share its bytes; addresses keep their values apart.
    """

    def __init__(
        self,
        secret: bytes | None = None,
        *,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._addresses = Addresses(secret or secrets.token_bytes(32))
        self._clock = clock
        self._rows: LruCache[tuple[str, bytes], tuple[bytes, float]] = LruCache(max_bytes)

    async def open(self) -> None:
        """Do nothing: the store starts empty."""

    async def close(self) -> None:
        """Delete all values."""
        self._rows.clear()

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        """Return the values that exist and have not expired."""
        found = {}
        now = self._clock()
        for key in keys:
            row = self._rows.get((kind, key))
            if row is not None and row[1] > now:
                found[key] = row[0]
        return found

    async def put(
        self,
        kind: str,
        key: bytes,
        value: bytes,
        ttl_seconds: float,
        owner: str | None = None,  # noqa: ARG002 - rows end with the process
    ) -> bool:
        """Store a value, evicting the least recently used, and return whether it was stored."""
        row = (value, self._clock() + ttl_seconds)
        # A row takes more memory than its value; without this, small values would count too little.
        return self._rows.put((kind, key), row, len(value) + ROW_BYTES)

    def address(self, *parts: bytes) -> bytes:
        """Return the key for these parts."""
        return self._addresses.of(*parts)
