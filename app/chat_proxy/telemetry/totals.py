"""Totals over chats: tokens saved, and also chats that were not measured or not changed."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from chat_proxy.telemetry.record import RequestRecord

MODELS = 50
OTHERS = "(others)"
_UNCHANGED = ("none", "off")

Row = Mapping[str, Any]


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

    def add(self, record: RequestRecord) -> None:
        """Add one chat; tokens are counted only if the upstream answered with success."""
        self.chats += 1
        before = record.tokens_before
        is_sent = record.upstream_seconds is not None
        if record.status >= 400:
            self.failed += 1
        if before is None:
            self.unmeasured += is_sent
        elif not record.window:
            self.without_window += 1
        if record.replays:
            self.replays += record.replays
        if record.mode == "observe":
            self.observed += 1
        if record.compaction not in _UNCHANGED or record.stages or record.failed_stages:
            self._add_changes(record)
        if before is not None and is_sent and 200 <= record.status < 300:
            self.tokens_before += before
            if record.tokens_after != before:
                self._add_saved(record, before)

    def _add_changes(self, record: RequestRecord) -> None:
        self.failed_open += record.compaction == "failed-open" or bool(record.failed_stages)
        if record.mode != "observe":
            self.changed += bool(record.stages)
            self.compactions += record.is_break
            self.reused += record.compaction == "reused"
            self.built += record.compaction == "built"

    def _add_saved(self, record: RequestRecord, before: int) -> None:
        after = before if record.tokens_after is None else record.tokens_after
        if record.mode == "observe":
            self.would_save += max(0, before - after)
        else:
            self.saved += max(0, before - after)

    def document(self) -> dict[str, int]:
        """Return the totals by name."""
        return asdict(self)

    @classmethod
    def sum_of(cls, documents: Iterable[Mapping[str, int]]) -> Self:
        """Return the sum of several processes' totals; a missing name counts as 0."""
        total = cls()
        for document in documents:
            for field in fields(cls):
                more = document.get(field.name, 0)
                setattr(total, field.name, getattr(total, field.name) + more)
        return total


def by_model(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the chats, window, savings and estimate errors of each model, most chats first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        name = row["model"] if row["model"] in found or len(found) < MODELS else OTHERS
        found.setdefault(name, []).append(row)
    models = [_model(name, own) for name, own in found.items()]
    return sorted(models, key=lambda model: (-model["chats"], model["model"]))


def _model(name: str, rows: list[Row]) -> dict[str, Any]:
    windows = [(row["window"], row["window_source"]) for row in rows if row["window"]]
    window, source = windows[-1] if windows else (0, "")
    ratios = [ratio for row in rows if (ratio := estimate_ratio(row)) is not None]
    misses = [abs(ratio - 1) for ratio in ratios]
    return {
        "model": name,
        "chats": len(rows),
        "window": window,
        "window_source": source,
        "saved": sum(map(saved_tokens, rows)),
        "estimates": len(ratios),
        "bias": sum(ratios) / len(ratios) - 1 if ratios else None,
        "error": sum(misses) / len(misses) if misses else None,
    }


def estimate_ratio(row: Row) -> float | None:
    """Return the estimate of the sent prompt divided by the upstream's own count."""
    before, after = row["tokens"]
    estimate = before if row["mode"] == "observe" else after
    if not estimate or not row["prompt_tokens"] or row["status"] != 200:
        return None
    return float(estimate / row["prompt_tokens"])


def saved_tokens(row: Row) -> int:
    """Return the tokens that were not sent; 0 for failed chats and in observe mode."""
    before, after = row["tokens"]
    is_answered = 200 <= row["status"] < 300 and row["upstream_ms"] is not None
    if before is None or after is None or not is_answered or row["mode"] == "observe":
        return 0
    return max(0, int(before) - int(after))
