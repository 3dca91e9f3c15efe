"""When a conversation's last request was, known by its content and kept across restarts."""

import asyncio
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from chat_proxy.caches import RecentCache
from chat_proxy.proxy.session.checkpoints import Scope, address_of
from chat_proxy.store.base import Store

KIND = "seen"
REMEMBERED = 10_000
KEPT_SECONDS = 30 * 86_400
WRITE_SECONDS = 10.0
CLOSE_SECONDS = 5.0
INLINE_PLACES = 1_000

_TIME = struct.Struct(">d")


class Place(NamedTuple):
    """A history: whose it is, and its last link."""

    scope: Scope
    link: bytes


class Seen(NamedTuple):
    """When a history was seen, and the one that it went on from."""

    at: float
    before: Place | None


class LastSeen:
    """Remembers each history's last request; known at once, written behind."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.time,
        write_seconds: float = WRITE_SECONDS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._write_seconds = write_seconds
        self._seen: RecentCache[Place, Seen] = RecentCache(REMEMBERED)
        self._unwritten: RecentCache[Place, float] = RecentCache(REMEMBERED)
        self._writing: asyncio.Task[None] | None = None

    async def touch(
        self, scope: Scope, seams: Sequence[int], links: Sequence[bytes]
    ) -> float | None:
        """Return how many seconds ago the longest known prefix was seen, and remember this one."""
        if not links:
            return None
        lengths = [len(links), *(seam for seam in reversed(seams) if 0 < seam < len(links))]
        longest_first = (Place(scope, links[length - 1]) for length in lengths)
        before = next((place for place in longest_first if place in self._seen), None)
        if before is None:
            before = await self._recall([Place(scope, links[length - 1]) for length in lengths])
        seen = self._seen.get(before) if before else None
        now = self._clock()
        self._remember(Place(scope, links[-1]), before, now)
        return max(0.0, now - seen.at) if seen else None

    async def close(self) -> None:
        """Write the rest, if that does not take too long."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait({self._writing})
        with suppress(TimeoutError):
            await asyncio.wait_for(self._write(), CLOSE_SECONDS)

    async def _recall(self, places: list[Place]) -> Place | None:
        """Take the longest prefix that the store knows into memory."""
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
        """Return where the store keeps them; a long history's are made in a thread."""

        def made() -> list[bytes]:
            key = places[0].scope.key(self._store, KIND)
            return [address_of(key, place.link, place.link) for place in places]

        return made() if len(places) <= INLINE_PLACES else await asyncio.to_thread(made)

    def _remember(self, place: Place, before: Place | None, now: float) -> None:
        """Remember a history instead of the one before the one that it goes on from.

        That one stays: whoever edits or repeats the last message goes on from there.
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
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_behind())

    async def _write_behind(self) -> None:
        while self._unwritten:
            await asyncio.sleep(self._write_seconds)
            await self._write()

    async def _write(self) -> None:
        """Write what waits, up to the first that the store refuses: the others would wait too."""
        is_kept = True
        while self._unwritten and is_kept:
            place, at = self._unwritten.pop_oldest()
            address = place.scope.address(self._store, KIND, place.link)
            row = _TIME.pack(at)
            is_kept = await self._store.put(KIND, address, row, KEPT_SECONDS, place.scope.tenant)
