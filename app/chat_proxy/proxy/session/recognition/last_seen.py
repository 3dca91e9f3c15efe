"""The time of a conversation's last request, found by its content, kept across restarts."""

import struct
import time
from collections.abc import Callable
from typing import NamedTuple

from chat_proxy.caches import LruCache
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.session.recognition.history import History
from chat_proxy.proxy.session.recognition.scope import Scope, address_of
from chat_proxy.store.base import Store
from chat_proxy.write_behind import WriteBehind

KIND = "seen"
REMEMBERED = 10_000
KEPT_SECONDS = 30 * 86_400
WRITE_SECONDS = 10.0
INLINE_PLACES = 1_000

_TIME = struct.Struct(">d")


class Place(NamedTuple):
    """A history: its scope, and its last hash."""

    scope: Scope
    link: bytes


class Seen(NamedTuple):
    """When a history was seen, and the history that it continues."""

    at: float
    before: Place | None


class LastSeen:
    """The last request of each history, keyed by scope (so by tenant) and hash; write-behind."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        write_seconds: float = WRITE_SECONDS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._seen: LruCache[Place, Seen] = LruCache(REMEMBERED)
        self._unwritten: LruCache[Place, float] = LruCache(REMEMBERED)
        self._write_behind = WriteBehind(self._write, write_seconds)

    async def touch(self, scope: Scope, history: History) -> float | None:
        """Return how many seconds ago the longest known prefix was seen, and record this one."""
        links, first = history.links, history.instructions
        if len(links) <= first:
            return None
        seams = (seam for seam in reversed(history.seams) if first < seam < len(links))
        lengths = [len(links), *seams]
        longest_first = (Place(scope, links[length - 1]) for length in lengths)
        before = next((place for place in longest_first if place in self._seen), None)
        if before is None:
            before = await self._recall([Place(scope, links[length - 1]) for length in lengths])
        seen = self._seen.get(before) if before else None
        now = self._clock()
        self._remember(Place(scope, links[-1]), before, now)
        return max(0.0, now - seen.at) if seen else None

    async def close(self) -> None:
        """Write what is pending."""
        await self._write_behind.close()

    async def _recall(self, places: list[Place]) -> Place | None:
        """Load the longest prefix that the store has into memory."""
        addresses = await self._addresses(places)
        rows = await self._store.get_many(KIND, addresses)
        for place, address in zip(places, addresses, strict=True):
            row = rows.get(address, b"")
            if len(row) == _TIME.size:
                (at,) = _TIME.unpack(row)
                self._seen.put(place, Seen(at, None))
                return place
        return None

    async def _addresses(self, places: list[Place]) -> list[bytes]:
        """Return the addresses of histories; many are computed in a thread."""

        def made() -> list[bytes]:
            key = places[0].scope.key(self._store, KIND)
            return [address_of(key, place.link, place.link) for place in places]

        return await run_inline_or_in_thread(made, len(places), INLINE_PLACES)

    def _remember(self, place: Place, before: Place | None, now: float) -> None:
        """Record a history, and forget the one two requests earlier.

        The history it continues is kept: a client that edits its last message continues from it.
        """
        older = self._seen.get(before) if before else None
        if before is not None and before != place:
            if older is not None and older.before is not None:
                self._seen.forget(older.before)
            self._seen.put(before, Seen(now, None))
            self._unwritten.forget(before)
        elif older is not None:
            before = older.before
        self._seen.put(place, Seen(now, before))
        self._unwritten.put(place, now)
        self._write_behind.schedule()

    async def _write(self) -> bool:
        """Write what is pending, up to the first row that the store refuses."""
        while self._unwritten:
            place, at = self._unwritten.pop_oldest()
            address = place.scope.address(self._store, KIND, place.link)
            row = _TIME.pack(at)
            if not await self._store.put(KIND, address, row, KEPT_SECONDS, place.scope.tenant):
                break
        return not self._unwritten
