"""What was learned about each upstream's way of counting, kept across restarts."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable

from chat_proxy.store.base import Store
from chat_proxy.telemetry.logs import WARNING, log
from chat_proxy.tokens.calibration import Calibration
from chat_proxy.tokens.counter import RequestCount

KIND = "calibration"
NOBODY = ""
REMEMBERED_MODELS = 1_000
KEPT_SECONDS = 90 * 86_400
WRITE_SECONDS = 5
LESSONS = 30
LESSON_SECONDS = 0.02

Key = tuple[str, str]


class Calibrations:
    """One calibration for each upstream and model; learned at once, written behind."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._known: OrderedDict[Key, Calibration] = OrderedDict()
        self._unwritten: dict[Key, Calibration] = {}
        self._truncating: set[Key] = set()
        self._writing: asyncio.Task[None] | None = None
        self._clock = clock
        self._heard_at = -LESSON_SECONDS

    def open(self) -> None:
        """Begin to write what is learned, now and then."""
        self._writing = asyncio.create_task(self._write_now_and_then())

    async def close(self) -> None:
        """Write the rest."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait({self._writing})
        await self.write()

    def known(self, base_url: str, model: str) -> Calibration | None:
        """Return the model's calibration if it was asked for before."""
        return self._known.get((base_url, model))

    async def of(self, base_url: str, model: str, text_factor: float) -> Calibration:
        """Return the model's calibration, read from the store when it is asked for first."""
        key = (base_url, model)
        if key not in self._known:
            address = address_of(key)
            stored = (await self._store.get_many(KIND, [address])).get(address)
            fresh = Calibration.fresh(text_factor)
            read = Calibration.from_json(stored, text_factor) if stored else fresh
            self._remember(key, self._known.get(key, read))
        return self._known[key]

    def learn(self, base_url: str, model: str, count: RequestCount, usage: tuple[int, int]) -> None:
        """Take in the upstream's own count, and note a prompt that it cut without a word."""
        key = (base_url, model)
        calibration = self._known.get(key)
        prompt_tokens, cached_tokens = usage
        if calibration is None or self._may_skip(calibration):
            return
        lesson = calibration.learn(count, prompt_tokens, cached_tokens)
        self._remember(key, lesson.calibration)
        if lesson.verdict == "learned":
            self._unwritten[key] = lesson.calibration
        elif lesson.verdict == "truncated" and key not in self._truncating:
            self._truncating.add(key)
            log(
                "the upstream counts far fewer tokens than were sent: it may cut prompts silently",
                WARNING,
                model=model[:128],
                estimate=calibration.estimate(count),
                prompt_tokens=prompt_tokens,
            )

    async def write(self) -> None:
        """Write what was learned since the last time."""
        while self._unwritten:
            key, calibration = self._unwritten.popitem()
            value = calibration.to_json().encode()
            await self._store.put(KIND, address_of(key), value, KEPT_SECONDS, NOBODY)

    async def _write_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            await self.write()

    def _may_skip(self, calibration: Calibration) -> bool:
        """Tell whether a report may go unheard: much was learned, and the last one just now."""
        now = self._clock()
        if calibration.lessons >= LESSONS and now - self._heard_at < LESSON_SECONDS:
            return True
        self._heard_at = now
        return False

    def _remember(self, key: Key, calibration: Calibration) -> None:
        self._known[key] = calibration
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED_MODELS:
            forgotten, _ = self._known.popitem(last=False)
            self._truncating.discard(forgotten)


def address_of(key: Key) -> bytes:
    """Return where the store keeps a model's calibration."""
    base_url, model = key
    return hashlib.sha256(f"{base_url}\0{model}".encode(errors="replace")).digest()
