"""A store that forgets with the process."""

import time
from collections import OrderedDict
from collections.abc import Callable

from app.store.base import Rows

MAX_BYTES = 64 * 1024 * 1024


class MemoryStore:
    """Keeps the values that were used last, up to a number of bytes."""

    def __init__(
        self, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._rows: OrderedDict[tuple[str, bytes], tuple[bytes, float]] = OrderedDict()
        self._bytes = 0

    async def open(self) -> None:
        """Start empty."""

    async def close(self) -> None:
        """Forget everything."""
        self._rows.clear()
        self._bytes = 0

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        """Return the values that are there and not expired."""
        found = {}
        now = self._clock()
        for key in keys:
            row = self._rows.get((kind, key))
            if row is not None and row[1] > now:
                self._rows.move_to_end((kind, key))
                found[key] = row[0]
        return found

    async def put(self, kind: str, key: bytes, value: bytes, ttl_seconds: float) -> bool:
        """Keep a value, forgetting the ones that were used longest ago."""
        if len(value) > self._max_bytes:
            return False
        self._forget((kind, key))
        self._rows[kind, key] = (value, self._clock() + ttl_seconds)
        self._bytes += len(value)
        while self._bytes > self._max_bytes:
            self._forget(next(iter(self._rows)))
        return True

    def _forget(self, address: tuple[str, bytes]) -> None:
        row = self._rows.pop(address, None)
        if row is not None:
            self._bytes -= len(row[0])
