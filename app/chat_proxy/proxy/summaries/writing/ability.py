"""Which models can write summaries: one that fails again and again is asked otherwise."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from chat_proxy.caches import LruCache

REFUSALS_IN_A_ROW = 3
REMEMBERED_SECONDS = 3_600.0
REMEMBERED_MODELS = 2_000

Style = Literal["full", "short", "none"]
"""How a model is asked: for all sections, for a plain list of facts, or not at all."""

_NEXT: dict[Style, Style] = {"full": "short", "short": "none", "none": "none"}


@dataclass(frozen=True, slots=True)
class _Record:
    style: Style
    refusals: int
    at: float


class SummaryAbility:
    """The style in which each model is asked, keyed by tenant and model; bounded, for an hour.

    Keyed by tenant, because the content of one tenant must not decide about another's summaries.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._records: LruCache[tuple[str, str], _Record] = LruCache(REMEMBERED_MODELS)

    def style_of(self, tenant: str, model: str) -> Style:
        """Return how a model is asked now."""
        return self._record(tenant, model).style

    def is_doubtful(self, tenant: str, model: str) -> bool:
        """Return whether the model's last summary could not be used."""
        return self._record(tenant, model).refusals > 0

    def succeeded(self, tenant: str, model: str) -> None:
        """Record a usable summary."""
        record = self._record(tenant, model)
        if record.refusals:
            self._records.put((tenant, model), _Record(record.style, 0, self._clock()))

    def refused(self, tenant: str, model: str) -> None:
        """Record a summary that could not be used; three in a row change the style."""
        record = self._record(tenant, model)
        refusals = record.refusals + 1
        style = record.style
        if refusals >= REFUSALS_IN_A_ROW:
            style, refusals = _NEXT[style], 0
        self._records.put((tenant, model), _Record(style, refusals, self._clock()))

    def timed_out(self, tenant: str, model: str) -> None:
        """Record a summary that took too long.

        The short instruction needs a fraction of the time. A model that is too slow even for that
        may only be busy, and is asked again.
        """
        if self.style_of(tenant, model) == "full":
            self.refused(tenant, model)

    def _record(self, tenant: str, model: str) -> _Record:
        record = self._records.get((tenant, model))
        if record is None or self._clock() - record.at > REMEMBERED_SECONDS:
            return _Record("full", 0, self._clock())
        return record
