"""Calibrations of the token count, learned from what upstreams report, kept across restarts."""

import hashlib
import time
from collections.abc import Callable
from typing import NamedTuple

from chat_proxy.caches import BoundedDict, LruCache
from chat_proxy.store.base import Store
from chat_proxy.telemetry.logs import WARNING, log
from chat_proxy.tokens.calibration.calibration import Calibration
from chat_proxy.tokens.counter import RequestCount
from chat_proxy.write_behind import WriteBehind

KIND = "calibration"
NO_TENANT = ""
REMEMBERED_MODELS = 1_000
KEPT_SECONDS = 90 * 86_400
WRITE_SECONDS = 5
LESSONS = 30
LESSON_SECONDS = 0.02

Key = tuple[str, str]


class Counted(NamedTuple):
    """A request's count, and the calibration whose vocabulary it was counted in."""

    request: RequestCount
    calibration: Calibration


class Calibrations:
    """One calibration per base URL and model; learned at once, written in the background.

    It holds factors only, no text. All tenants of a model share it.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._known: BoundedDict[Key, Calibration] = BoundedDict(REMEMBERED_MODELS)
        self._unwritten: dict[Key, Calibration] = {}  # keys of `_known` only
        self._truncating: LruCache[Key, bool] = LruCache(REMEMBERED_MODELS)
        self._write_behind = WriteBehind(self.write, WRITE_SECONDS)
        self._clock = clock
        self._learned_at = -LESSON_SECONDS

    async def close(self) -> None:
        """Write what is pending."""
        await self._write_behind.close()

    def known(self, base_url: str, model: str) -> Calibration | None:
        """Return the model's calibration if it is in memory."""
        return self._known.get((base_url, model))

    async def of(self, base_url: str, model: str, prior: str) -> Calibration:
        """Return the model's calibration, read from the store the first time.

        One that was learned from counts in another vocabulary is replaced.
        """
        key = (base_url, model)
        known = self._known.get(key)
        if known is not None and known.prior == prior:
            return known
        address = address_of(key)
        stored = (await self._store.get_many(KIND, [address])).get(address)
        read = Calibration.from_json(stored, prior) if stored else Calibration.fresh(prior)
        known = self._known.get(key)
        calibration = known if known is not None and known.prior == prior else read
        self._known.put(key, calibration)
        return calibration

    def learn(self, key: Key, counted: Counted, usage: tuple[int, int]) -> None:
        """Learn from the upstream's own count, and log when it silently truncated a prompt."""
        calibration, count = self._known.get(key), counted.request
        prompt_tokens, cached_tokens = usage
        if calibration is None or not calibration.counts_like(counted.calibration):
            return
        if self._may_skip(calibration):
            return
        lesson = calibration.learn(count, prompt_tokens, cached_tokens)
        self._known[key] = lesson.calibration
        if lesson.verdict == "learned":
            self._keep(key, lesson.calibration)
        elif lesson.verdict == "truncated" and key not in self._truncating:
            self._truncating.put(key, True)
            log(
                "the upstream counts far fewer tokens than were sent: it may cut prompts silently",
                WARNING,
                model=key[1][:128],
                estimate=calibration.estimate(count),
                prompt_tokens=prompt_tokens,
            )

    def learn_exactly(self, key: Key, counted: Counted, tokens: int) -> None:
        """Learn from the engine's own count of a request, which is believed as it is."""
        calibration = self._known.get(key)
        if calibration is not None and calibration.counts_like(counted.calibration):
            self._keep(key, calibration.learn_exactly(counted.request, tokens))

    def recognise(self, key: Key, vocabulary: str | None) -> None:
        """Take over the vocabulary that the engine's tokenizer shows, None if we do not know it."""
        calibration = self._known.get(key)
        if calibration is not None and calibration.vocabulary != vocabulary:
            self._keep(key, calibration.in_vocabulary(vocabulary))

    def _keep(self, key: Key, calibration: Calibration) -> None:
        self._known[key] = calibration
        if not self._unwritten:
            self._write_behind.schedule()
        self._unwritten[key] = calibration

    async def write(self) -> bool:
        """Write what is pending; what the store refuses is learned again."""
        while self._unwritten:
            key, calibration = self._unwritten.popitem()
            value = calibration.to_json().encode()
            await self._store.put(KIND, address_of(key), value, KEPT_SECONDS, NO_TENANT)
        return True

    def _may_skip(self, calibration: Calibration) -> bool:
        """Return whether to skip a report: much is learned, and the last one was just now."""
        now = self._clock()
        if calibration.lessons >= LESSONS and now - self._learned_at < LESSON_SECONDS:
            return True
        self._learned_at = now
        return False


def address_of(key: Key) -> bytes:
    """Return the store's address of a model's calibration."""
    base_url, model = key
    return hashlib.sha256(f"{base_url}\0{model}".encode(errors="replace")).digest()
