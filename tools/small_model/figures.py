"""What a run shows: its chats, the exchanges with the server and the proxy's metrics; pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tools.engine.findings import Finding, none_of, percentile, told
from tools.small_model.chat import Chat, Turn
from tools.small_model.exchanges import Exchange, in_a_row, seconds_behind
from tools.small_model.story import FACTS, Fact

LONGEST_WAIT = 1.0
FIRST_LESSONS = 3
"""Requests after which the proxy is expected to have learned how the server counts."""


@dataclass(frozen=True)
class Metrics:
    """The proxy's counters at the end of a run."""

    page: str

    def by_label(self, name: str, label: str) -> dict[str, int]:
        """Return a counter's values that are not zero, by one of its labels."""
        found: dict[str, int] = {}
        for family in text_string_to_metric_families(self.page):
            for sample in family.samples:
                if sample.name == f"chat_proxy_{name}_total" and sample.value:
                    key = sample.labels.get(label, "")
                    found[key] = found.get(key, 0) + int(sample.value)
        return found

    def total(self, name: str) -> int:
        """Return a counter, added up over its labels."""
        return sum(self.by_label(name, "").values())


@dataclass(frozen=True)
class LongChat:
    """The long chat and all that was seen of it."""

    chat: Chat
    exchanges: Sequence[Exchange]
    metrics: Metrics
    window: int
    max_tokens: int
    known_window: str
    """The window that the proxy knows at the end, and from where."""
    direct_status: int
    direct_tokens: int
    """How the server itself answers the last request, and its count of that prompt."""
    facts: Sequence[Fact] = FACTS

    def findings(self) -> list[Finding]:
        """Return the figures of the chat."""
        turns = self.chat.turns
        summaries = [exchange for exchange in self.exchanges if exchange.is_summary]
        return [
            told(f"{len(turns)} turns, by the server's count", self._length()),
            told("… the last request without the proxy", self.direct_status),
            none_of("… requests refused", len(self.chat.refused)),
            told("… labels, in order", in_a_row(turn.label for turn in turns)),
            *wait_findings(turns, summaries),
            *self._fact_findings(),
            *self._prompt_findings(),
            *summary_findings(summaries, self.metrics),
            *self._window_findings(),
        ]

    def _length(self) -> str:
        return f"{self.direct_tokens:,} tokens, {self.direct_tokens / self.window:.1f} windows"

    def _fact_findings(self) -> Iterable[Finding]:
        yield self.kept()
        lacking = sum(
            lacks_a_fact(number, turn, self.facts) for number, turn in enumerate(self.chat.turns, 1)
        )
        yield told("… prompts that lacked a fact which the user had stated", lacking)
        share = (self.window - self.max_tokens) / max(1, self.direct_tokens)
        left = facts_in(newest_texts(self.chat.history[:-1], share), self.facts)
        yield told("… if the oldest messages were dropped instead",
                   f"{len(left)} of {len(self.facts)}")  # fmt: skip

    def kept(self) -> Finding:
        """Return how many of the user's facts the last prompt has."""
        last = facts_in(self.chat.last_prompt.texts, self.facts)
        lost = ", ".join(fact.kind for fact in self.facts if fact not in last)
        figure = f"{len(last)} of {len(self.facts)}" + (f" (lost: {lost})" if lost else "")
        wanted = f"{len(self.facts)} of {len(self.facts)}"
        return Finding("the user's facts that are in the last prompt", figure, wanted, not lost)

    def reworded_findings(self) -> list[Finding]:
        """Return the few figures of a chat whose facts are not those of the story."""
        turns = self.chat.turns
        waits = wait_findings(turns, [it for it in self.exchanges if it.is_summary])
        return [
            none_of("requests refused", len(self.chat.refused)),
            next(iter(waits)),
            told("the user's facts that are in the last prompt", self.kept().figure),
        ]

    def _prompt_findings(self) -> Iterable[Finding]:
        turns = self.chat.turns
        largest = max(turn.prompt_tokens for turn in turns)
        yield told("last prompt", f"{turns[-1].prompt_tokens} of {self.window} tokens")
        yield told("… largest prompt", f"{largest} of {self.window} tokens")
        folds = sum(new.prompt_tokens < old.prompt_tokens for old, new in _pairs(turns))
        yield told("… times that history was folded", folds)
        errors = [turn.answer.counting_error for turn in turns[FIRST_LESSONS:] if turn.is_answered]
        if errors:
            yield told("… counting error, p95", f"{percentile(errors, 0.95):.2%}")

    def _window_findings(self) -> Iterable[Finding]:
        wanted = f"{self.window} (discovery)"
        yield Finding("window that the proxy knows at the end", self.known_window, wanted,
                      self.known_window == wanted)  # fmt: skip
        yield none_of("… prompts that the server refused", self._overflows())
        yield none_of("… answers taken for silent truncation",
                      self.metrics.total("silent_truncation"))  # fmt: skip

    def _overflows(self) -> int:
        return sum(exchange.status == 400 for exchange in self.exchanges)


def wait_findings(turns: Sequence[Turn], summaries: Sequence[Exchange]) -> Iterable[Finding]:
    """Yield how long requests waited: in the proxy, and at the server behind a summary."""
    fitted = [turn.added for turn in turns if turn.fitted]
    others = [turn.added for turn in turns if not turn.fitted]
    longest = max(fitted, default=0.0)
    yield Finding("longest time that the proxy added to a request whose prompt fitted",
                  f"{longest:.2f} s", f"≤ {LONGEST_WAIT:g} s", longest <= LONGEST_WAIT)  # fmt: skip
    whole = [turn.seconds for turn in turns if turn.fitted] or [0.0]
    yield told("… whole time of such a request, with the server's: half of them, longest",
               f"{percentile(whole, 0.5):.1f} s, {max(whole):.1f} s")  # fmt: skip
    yield told(
        "longest time that the proxy added where the prompt did not fit",
        f"{max(others, default=0.0):.2f} s ({len(others)})",
    )
    behind = max(
        (seconds_behind(chat, summaries) for turn in turns for chat in turn.exchanges), default=0.0
    )
    yield told("longest wait of a chat at the server behind a summary", f"{behind:.1f} s")


def summary_findings(summaries: Sequence[Exchange], metrics: Metrics) -> Iterable[Finding]:
    """Yield what became of summaries: how they were asked for, how many could be used."""
    asked = in_a_row(exchange.style for exchange in summaries)
    yield told("questions for a summary, in order", asked)
    yield told("… why their answers ended", _counts(Counter(it.end for it in summaries)))
    yield told("… seconds of the server", f"{sum(it.seconds for it in summaries):.0f}")
    results = metrics.by_label("summaries", "result")
    yield told("… summaries written", results.get("written", 0))
    yield told("… not written, by reason", _counts(metrics.by_label("summaries_fail", "reason")))


def contact_findings(turns: Sequence[Turn], summaries: Sequence[Exchange],
                     metrics: Metrics) -> list[Finding]:  # fmt: skip
    """Return the figures of histories that came whole, each as a chat of its own."""
    facts = [len(facts_in(turn.exchanges[-1].texts)) if turn.exchanges else 0 for turn in turns]
    waits = ", ".join(f"{turn.added:.1f}" for turn in turns)
    return [
        none_of(f"{len(turns)} chats that come with this history: refused",
                sum(not turn.is_answered for turn in turns)),
        told("… seconds that the proxy added, in order", waits),
        told("… the user's facts in the prompts", ", ".join(map(str, facts))),
        *summary_findings(summaries, metrics),
    ]  # fmt: skip


def facts_in(texts: Sequence[str], facts: Sequence[Fact] = FACTS) -> list[Fact]:
    """Return the facts that stand in the texts of a prompt."""
    return [fact for fact in facts if fact.is_in(texts)]


def lacks_a_fact(number: int, turn: Turn, facts: Sequence[Fact]) -> bool:
    """Return whether the prompt of a turn lacks something that was said in or before it."""
    if not turn.exchanges:
        return False
    texts = turn.exchanges[-1].texts
    return any(fact.turn <= number and not fact.is_in(texts) for fact in facts)


def newest_texts(history: Sequence[Mapping[str, Any]], share: float) -> list[str]:
    """Return the newest messages of a history that are at most this share of it."""
    texts = [str(message["content"]) for message in history]
    left = share * sum(map(len, texts))
    kept: list[str] = []
    for text in reversed(texts):
        left -= len(text)
        if left < 0:
            break
        kept.append(text)
    return kept[::-1]


def _pairs(turns: Sequence[Turn]) -> Iterable[tuple[Turn, Turn]]:
    answered = [turn for turn in turns if turn.is_answered]
    return pairwise(answered)


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(found.items())) or "none"
