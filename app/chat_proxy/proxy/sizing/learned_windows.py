"""Context windows learned from overflow errors and silent truncation, kept across restarts."""

import struct
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from chat_proxy.caches import LruCache
from chat_proxy.proxy.sizing.context_window import LearnedLimits
from chat_proxy.store.base import Store
from chat_proxy.upstream.overflow import Overflow, is_sane
from chat_proxy.write_behind import WriteBehind

KIND: Final = "window"
NO_TENANT: Final = ""
REMEMBERED_PLACES: Final = 1_000
REMEMBERED_LESSONS: Final = 2_000
KEPT_SECONDS: Final = 7 * 86_400
WRITE_SECONDS: Final = 1.0

_LIMIT = b"limit"
_INPUT_LIMIT = b"input_limit"
_ROW = struct.Struct(">qd")


class Lesson(NamedTuple):
    """One limit, and when the upstream last gave it."""

    tokens: int
    at: float


class LearnedWindows:
    """The limits of each model at an upstream, keyed by base URL and model; write-behind.

    The newest lesson counts: while a limit is respected its upstream reports nothing, so a new
    report is true, whether it is smaller or larger. A lesson that is not repeated expires, because
    an upstream that got a larger window would never report it.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._known: LruCache[bytes, Lesson | None] = LruCache(REMEMBERED_LESSONS)
        self._unwritten: LruCache[bytes, Lesson] = LruCache(REMEMBERED_LESSONS)
        self._address_cache: LruCache[tuple[str, str], tuple[bytes, bytes]] = LruCache(
            REMEMBERED_PLACES
        )
        # Write at once, because a restart may be near, but not for each of many lessons.
        self._write_behind = WriteBehind(self._write, WRITE_SECONDS, at_once=True)
        self.lessons = 0
        """How many lessons were learned; a changed number means a new lesson."""

    async def of(self, base_url: str, model: str) -> LearnedLimits | None:
        """Return the limits of a model, read from the store the first time."""
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
        """Learn from an overflow error, if it gives a limit in tokens."""
        limits = (overflow.limit, overflow.input_limit)
        for address, tokens in zip(self._addresses(base_url, model), limits, strict=True):
            if tokens is not None and is_sane(tokens):
                self._keep(address, tokens)

    def lower(self, base_url: str, model: str, tokens: int) -> bool:
        """Learn a whole window that was inferred; return False if one as small is known."""
        address, _ = self._addresses(base_url, model)
        known = self._tokens_at(address)
        if not is_sane(tokens) or (known is not None and known <= tokens):
            return False
        self._keep(address, tokens)
        return True

    async def close(self) -> None:
        """Write what is pending."""
        await self._write_behind.close()

    def _addresses(self, base_url: str, model: str) -> tuple[bytes, bytes]:
        """Return the addresses of the two limits, hashed because model names come from clients."""
        found = self._address_cache.get((base_url, model))
        if found is None:
            names = (base_url.encode(), model.encode(errors="surrogatepass"))
            address = self._store.address
            found = address(*names, _LIMIT), address(*names, _INPUT_LIMIT)
            self._address_cache.put((base_url, model), found)
        return found

    def _keep(self, address: bytes, tokens: int) -> None:
        lesson = Lesson(tokens, self._clock())
        self.lessons += 1
        self._known.put(address, lesson)
        self._unwritten.put(address, lesson)
        self._write_behind.schedule()

    def _tokens_at(self, address: bytes) -> int | None:
        lesson = self._known.get(address)
        if lesson is not None and abs(self._clock() - lesson.at) <= KEPT_SECONDS:
            return lesson.tokens
        return None

    async def _write(self) -> bool:
        """Write what is pending, up to the first row that the store refuses."""
        while self._unwritten:
            address, lesson = self._unwritten.pop_oldest()
            row = _ROW.pack(*lesson)
            if not await self._store.put(KIND, address, row, KEPT_SECONDS, NO_TENANT):
                break
        return not self._unwritten


def _lesson_in(row: bytes) -> Lesson | None:
    """Read a stored row; return None for anything but a sane lesson."""
    if len(row) != _ROW.size:
        return None
    lesson = Lesson(*_ROW.unpack(row))
    return lesson if is_sane(lesson.tokens) else None
