"""Totals over chats: tokens saved, and also chats that were not measured or not changed."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from chat_proxy.telemetry.printable import without_surrogates
from chat_proxy.telemetry.record import RequestRecord

MODELS = 50
OTHERS = "(others)"
_UNCHANGED = ("none", "off")
_GROUPS = ("stages", "models")

Document = dict[str, Any]


@dataclass(slots=True)
class ModelTotals:
    """The chats of one model over one API."""

    chats: int = 0
    changed: int = 0
    saved: int = 0
    estimates: int = 0
    """Prompts whose tokens the upstream counted too."""
    ratios: float = 0.0
    """The sum of estimate over the upstream's own count."""
    misses: float = 0.0
    """The sum of how far these are from 1."""
    window: int = 0
    window_source: str = ""

    def add(self, record: RequestRecord, saved: int) -> None:
        """Add one chat and the tokens that were not sent for it."""
        self.chats += 1
        self.changed += bool(record.stages) and record.mode != "observe"
        self.saved += saved
        if record.window:
            self.window, self.window_source = record.window, record.window_source
        if (ratio := estimate_ratio(record)) is not None:
            self.estimates += 1
            self.ratios += ratio
            self.misses += abs(ratio - 1)

    def merge(self, other: Mapping[str, Any]) -> None:
        """Add the totals of another process."""
        for name in ("chats", "changed", "saved", "estimates", "ratios", "misses"):
            setattr(self, name, getattr(self, name) + other.get(name, 0))
        if not self.window:
            self.window = other.get("window", 0)
            self.window_source = other.get("window_source", "")


@dataclass(slots=True)
class Totals:
    """Counts since the start of a process."""

    chats: int = 0
    others: int = 0
    """Requests that are not chats."""
    failed: int = 0
    """Chats answered with an error."""
    unmeasured: int = 0
    """Chats that were sent without a token count: mode off, or an unknown shape."""
    without_window: int = 0
    """Chats whose model has no known window, so that it cannot be enforced."""
    observed: int = 0
    """Chats in observe mode, which are not changed."""
    failed_open: int = 0
    """Chats that were sent without a change or a stage because it failed."""
    changed: int = 0
    compactions: int = 0
    reused: int = 0
    built: int = 0
    replays: int = 0
    tokens_before: int = 0
    """Tokens of the successful chats, as the clients sent them."""
    saved: int = 0
    """Tokens of these chats that were not sent to the upstream."""
    would_save: int = 0
    """The same in observe mode, where they were sent nevertheless."""
    commands: int = 0
    """Chats that the proxy answered itself: `/compact`."""
    waits: int = 0
    """Chats that waited for a summary."""
    waited_ms: float = 0.0
    stages: dict[str, int] = field(default_factory=dict)
    """How many chats each stage changed."""
    models: dict[str, ModelTotals] = field(default_factory=dict)
    """By wire and model, with a space between; at most MODELS, then OTHERS."""

    def add(self, record: RequestRecord) -> None:
        """Add one chat; tokens are counted only if the upstream answered with success."""
        self.chats += 1
        before = record.tokens_before
        is_sent = record.upstream_seconds is not None
        if record.status >= 400:
            self.failed += 1
        if record.command:
            self.commands += 1
        elif before is None:
            self.unmeasured += is_sent
        elif not record.window:
            self.without_window += is_sent
        if record.summary_wait_seconds:
            self.waits += 1
            self.waited_ms += record.summary_wait_seconds * 1000
        if record.replays:
            self.replays += record.replays
        if record.mode == "observe":
            self.observed += 1
        if record.compaction not in _UNCHANGED or record.stages or record.failed_stages:
            self._add_changes(record)
        saved = 0
        if before is not None and is_sent and 200 <= record.status < 300:
            self.tokens_before += before
            if record.mode == "observe":
                self.would_save += saved_tokens(record)
            else:
                saved = saved_tokens(record)
                self.saved += saved
        self._totals_of(record).add(record, saved)

    def _totals_of(self, record: RequestRecord) -> ModelTotals:
        """Return the totals of the record's wire and model; clients choose models' names."""
        key = f"{record.wire} {without_surrogates(record.model)}"
        if key not in self.models and len(self.models) >= MODELS:
            key = f"{record.wire} {OTHERS}"
        return self.models.setdefault(key, ModelTotals())

    def _add_changes(self, record: RequestRecord) -> None:
        for stage in record.stages:
            self.stages[stage] = self.stages.get(stage, 0) + 1
        self.failed_open += record.compaction == "failed-open" or bool(record.failed_stages)
        if record.mode != "observe":
            self.changed += bool(record.stages)
            self.compactions += record.is_break
            self.reused += record.compaction == "reused"
            self.built += record.compaction == "built"

    def document(self) -> Document:
        """Return the totals by name."""
        return asdict(self)

    def by_model(self) -> list[Document]:
        """Return the totals of each wire and model, most chats first."""
        found = []
        for key, own in self.models.items():
            wire, _, model = key.partition(" ")
            bias = mean(own.ratios - own.estimates, own.estimates)
            error = mean(own.misses, own.estimates)
            found.append(asdict(own) | {"wire": wire, "model": model, "bias": bias, "error": error})
        return sorted(found, key=lambda it: (-it["chats"], it["model"], it["wire"]))

    @classmethod
    def sum_of(cls, documents: Iterable[Mapping[str, Any]]) -> Self:
        """Return the sum of several processes' totals; a missing name counts as 0."""
        total = cls()
        plain = [it.name for it in fields(cls) if it.name not in _GROUPS]
        for document in documents:
            for name in plain:
                setattr(total, name, getattr(total, name) + document.get(name, 0))
            for stage, count in document.get("stages", {}).items():
                total.stages[stage] = total.stages.get(stage, 0) + count
            for key, own in document.get("models", {}).items():
                total.models.setdefault(key, ModelTotals()).merge(own)
        return total


def estimate_ratio(record: RequestRecord) -> float | None:
    """Return the estimate of the sent prompt divided by the upstream's own count."""
    estimate = record.tokens_before if record.mode == "observe" else record.tokens_after
    if not estimate or not record.prompt_tokens or record.status != 200:
        return None
    return estimate / record.prompt_tokens


def saved_tokens(record: RequestRecord) -> int:
    """Return by how many tokens the prompt became smaller, or in observe mode would have."""
    if record.tokens_before is None or record.tokens_after is None:
        return 0
    return max(0, record.tokens_before - record.tokens_after)


def mean(total: float, number: int) -> float | None:
    """Return the mean of so many numbers, None of none."""
    return total / number if number else None
