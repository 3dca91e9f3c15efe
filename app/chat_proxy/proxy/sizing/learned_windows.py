"""What upstreams taught about their windows by refusing what was too long."""

import asyncio
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from chat_proxy.caches import RecentCache
from chat_proxy.proxy.sizing.context_window import LearnedLimits
from chat_proxy.store.base import Store
from chat_proxy.upstream.overflow import Overflow, is_sane

KIND: Final = "window"
NOBODY: Final = ""
REMEMBERED_PLACES: Final = 1_000
REMEMBERED_LESSONS: Final = 2_000
KEPT_SECONDS: Final = 7 * 86_400
WRITE_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 5.0

_LIMIT = b"limit"
_INPUT_LIMIT = b"input_limit"
_ROW = struct.Struct(">qd")


class Lesson(NamedTuple):
    """One limit, and when it was told last."""

    tokens: int
    at: float


class LearnedWindows:
    """One lesson for each limit of a model at an upstream; known at once, written behind.

    The newest lesson counts: while a limit is respected its upstream has no reason to speak, so
    what it says then is news, smaller or larger. A lesson that is not repeated is forgotten, for
    the upstream may have been given more room and would never say so.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._known: RecentCache[bytes, Lesson | None] = RecentCache(REMEMBERED_LESSONS)
        self._unwritten: RecentCache[bytes, Lesson] = RecentCache(REMEMBERED_LESSONS)
        self._places: RecentCache[tuple[str, str], tuple[bytes, bytes]] = RecentCache(
            REMEMBERED_PLACES
        )
        self._writing: asyncio.Task[None] | None = None
        self.lessons = 0
        """How often something was learned: who remembers the number knows if there is news."""

    async def of(self, base_url: str, model: str) -> LearnedLimits | None:
        """Return what is known, read from the store when it is asked for first."""
        addresses = self._addresses(base_url, model)
        unknown = [address for address in addresses if address not in self._known]
        if unknown:
            rows = await self._store.get_many(KIND, unknown)
            for address in unknown:
                if address not in self._known:
                    self._known.put(address, _lesson_in(rows.get(address, b"")))
        limit, input_limit = map(self._tokens_at, addresses)
        return LearnedLimits(limit, input_limit) if limit or input_limit else None

    def learn(self, base_url: str, model: str, overflow: Overflow) -> None:
        """Take in what an overflow told, if it told a limit in tokens."""
        told = (overflow.limit, overflow.input_limit)
        for address, tokens in zip(self._addresses(base_url, model), told, strict=True):
            if tokens is not None and is_sane(tokens):
                lesson = Lesson(tokens, self._clock())
                self.lessons += 1
                self._known.put(address, lesson)
                self._unwritten.put(address, lesson)
        if self._unwritten and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write_behind())

    async def close(self) -> None:
        """Write the rest, if that does not take too long."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait({self._writing})
        with suppress(TimeoutError):
            await asyncio.wait_for(self._write(), CLOSE_SECONDS)

    def _addresses(self, base_url: str, model: str) -> tuple[bytes, bytes]:
        """Return where the two limits are kept: the names may be long, and are the clients'."""
        found = self._places.get((base_url, model))
        if found is None:
            names = (base_url.encode(), model.encode(errors="surrogatepass"))
            address = self._store.address
            found = address(*names, _LIMIT), address(*names, _INPUT_LIMIT)
            self._places.put((base_url, model), found)
        return found

    def _tokens_at(self, address: bytes) -> int | None:
        lesson = self._known.get(address)
        if lesson is not None and abs(self._clock() - lesson.at) <= KEPT_SECONDS:
            return lesson.tokens
        return None

    async def _write_behind(self) -> None:
        """Write at once, as the next start may be near, but not each of many lessons."""
        while self._unwritten:
            await self._write()
            await asyncio.sleep(WRITE_SECONDS)

    async def _write(self) -> None:
        """Write what waits, up to the first that the store refuses: the others would wait too."""
        is_kept = True
        while self._unwritten and is_kept:
            address, lesson = self._unwritten.pop_oldest()
            is_kept = await self._store.put(KIND, address, _ROW.pack(*lesson), KEPT_SECONDS, NOBODY)


def _lesson_in(row: bytes) -> Lesson | None:
    """Read a stored row; anything else than a sane lesson is none."""
    if len(row) != _ROW.size:
        return None
    lesson = Lesson(*_ROW.unpack(row))
    return lesson if is_sane(lesson.tokens) else None
