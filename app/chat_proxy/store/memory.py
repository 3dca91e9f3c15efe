"""A store that forgets with the process."""

import secrets
import time
from collections.abc import Callable

from chat_proxy.caches import RecentCache
from chat_proxy.store.base import Addresses, Rows

MAX_BYTES = 64 * 1024 * 1024
ROW_BYTES = 256


class MemoryStore:
    """Keeps the values that were used last, up to a number of bytes."""

    def __init__(
        self,
        secret: bytes | None = None,
        *,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._addresses = Addresses(secret or secrets.token_bytes(32))
        self._clock = clock
        self._rows: RecentCache[tuple[str, bytes], tuple[bytes, float]] = RecentCache(max_bytes)

    async def open(self) -> None:
        """Start empty."""

    async def close(self) -> None:
        """Forget everything."""
        self._rows.clear()

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        """Return the values that are there and not expired."""
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
        owner: str | None = None,  # noqa: ARG002 - forgotten with the process
    ) -> bool:
        """Keep a value, forgetting the ones that were used longest ago."""
        row = (value, self._clock() + ttl_seconds)
        # A row costs more than its value: millions of small ones must not pass for nothing.
        return self._rows.put((kind, key), row, len(value) + ROW_BYTES)

    def address(self, *parts: bytes) -> bytes:
        """Return the key that stands for these parts."""
        return self._addresses.of(*parts)
