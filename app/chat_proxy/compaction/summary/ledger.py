"""The ledger: facts that a summary lost, extracted from the messages without a model."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Final

from chat_proxy.chat.message import Message
from chat_proxy.compaction.summary.facts import Fact, FactKind, facts_in, facts_of_user
from chat_proxy.compaction.summary.sanitise import sanitised

CONSTRAINTS_SHARE: Final = 0.5

# Facts are chosen in rounds of this many per message: one pasted log must not fill the ledger.
_FACTS_PER_ROUND = 25
_MAX_MISFITS = 8
_MAX_TEXT_CHARS = 40_000
_MAX_TOTAL_CHARS = 300_000
_SEPARATOR_TOKENS = 2
_LABEL_TOKENS = 4
_HEADING = "## Critical Context"
_LABELS: dict[FactKind, str] = {
    "path": "Paths",
    "url": "URLs",
    "name": "Names",
    "number": "Numbers",
    "quote": "Quoted",
}
_PREFIXES: dict[FactKind, str] = {"constraint": "User: ", "error": ""}
_TOOL_NAME = re.compile(r"[\w.:-]{1,128}")
_NOTE = re.compile(
    r"\[(?:base64 removed|(?:image|audio|video|document|Old inline media cleared): [^\]\n]{0,110})]"
)
_JSON_KEY = re.compile(r'"[^"\\\n]{1,64}"\s{0,3}:')
_INSIDE = re.compile(r"[A-Za-z0-9_]{2}")
_JSON_ESCAPE = re.compile(r'\\([\\/nrtbf"])')
_UNESCAPED = {"\\": "\\", "/": "/", '"': '"'}


@dataclass(slots=True)
class _Occurrence:
    """A fact, and where it occurs."""

    fact: Fact
    newest: int
    rank: int
    by_user: bool
    messages: int = 0
    is_mentioned: bool = False
    """Whether the assistant mentioned it in its own text."""

    @property
    def is_relevant(self) -> bool:
        return self.by_user or self.messages > 1

    @property
    def sort_key(self) -> tuple[int, int, int, int]:
        """Order by demands, user's facts, assistant's facts, others; in each the newest first."""
        tier = 1 if self.by_user else 2 if self.is_mentioned else 3
        if self.fact.kind == "constraint":
            tier = 0
        return tier, self.rank // _FACTS_PER_ROUND, -self.newest, self.rank


def ledger(
    messages: Sequence[Message], summary: str, budget_tokens: int, count: Callable[[str], int]
) -> str:
    """Return lines with the facts of the messages that the summary lacks, within the budget."""
    relevant = (found for found in _occurrences(messages) if found.is_relevant)
    facts = [found.fact for found in sorted(relevant, key=lambda found: found.sort_key)]
    demands = [fact for fact in facts if fact.kind == "constraint"]
    chosen = _fitting(demands, summary, int(budget_tokens * CONSTRAINTS_SHARE), count)
    lines = _written(chosen)
    others = facts[len(demands) :]
    chosen += _fitting(others, f"{summary}\n{lines}", budget_tokens - count(lines), count)
    while chosen and count(_written(chosen)) > budget_tokens:
        del chosen[-1 - len(chosen) // 8 :]
    return _written(chosen)


def with_ledger(summary: str, lines: str) -> str:
    """Return the summary with the lines at the end of its Critical Context section."""
    if not lines:
        return summary
    before, heading, after = f"\n{summary}\n".partition(f"\n{_HEADING}\n")
    body, next_heading, rest = after.partition("\n## ") if heading else ("", "", "")
    kept = [line for line in body.splitlines() if line.strip() and line.strip("-* ") != "(none)"]
    whole = "\n".join([before.rstrip(), _HEADING, *kept, lines]) + next_heading + rest
    return whole.strip()


def _occurrences(messages: Sequence[Message]) -> Iterable[_Occurrence]:
    found: dict[str, _Occurrence] = {}
    first_read = _first_read(messages, _all_texts)
    first_read_for_mentions = _first_read(messages, _assistant_texts)
    for index, message in enumerate(messages):
        mentioned = _by_text(_mentioned_in(message)) if index >= first_read_for_mentions else {}
        is_read = message.is_user or index >= first_read
        facts = _by_text(_facts_of(message)) if is_read else mentioned
        for rank, (text, fact) in enumerate(facts.items()):
            seen = found.setdefault(text, _Occurrence(fact, index, rank, message.is_user))
            seen.messages += 1
            if text in mentioned:
                seen.is_mentioned = True
                seen.messages += _is_in_results_before(text, messages, index)
            # A fact from the user remains the user's when other messages repeat it.
            if message.is_user or not seen.by_user:
                seen.fact, seen.newest, seen.rank = fact, index, rank
                seen.by_user = message.is_user
    return found.values()


def _by_text(facts: Iterable[Fact]) -> dict[str, Fact]:
    by_text: dict[str, Fact] = {}
    for fact in facts:
        by_text.setdefault(fact.text, fact)
    return by_text


def _mentioned_in(message: Message) -> Iterator[Fact]:
    """Yield the facts in an assistant's own text, without its tool calls."""
    for text in _assistant_texts(message):
        yield from facts_in(_plain(text))


def _assistant_texts(message: Message) -> list[str]:
    if not message.is_assistant:
        return []
    return [text for kind, text in message.pieces() if kind == "text"]


def _all_texts(message: Message) -> list[str]:
    return [text for _, text in message.pieces()]


def _is_in_results_before(text: str, messages: Sequence[Message], index: int) -> bool:
    """Return whether a tool result directly before a message contains the text."""
    while index and messages[index - 1].is_tool_result:
        index -= 1
        if any(text in _ends(result) for result in _all_texts(messages[index])):
            return True
    return False


def _first_read(messages: Sequence[Message], texts_of: Callable[[Message], list[str]]) -> int:
    """Return the index from which all such texts are read: only the newest, to bound the work."""
    chars = 0
    for index in range(len(messages) - 1, -1, -1):
        chars += sum(min(len(text), _MAX_TEXT_CHARS) for text in texts_of(messages[index]))
        if chars > _MAX_TOTAL_CHARS:
            return index
    return 0


def _facts_of(message: Message) -> Iterator[Fact]:
    find = facts_of_user if message.is_user else facts_in
    for kind, text in message.pieces():
        if kind == "text":
            yield from find(_plain(text))
        elif kind == "tool_result":
            yield from find(_JSON_KEY.sub(" ", _plain(text)))
        elif kind == "tool_call" and not _TOOL_NAME.fullmatch(text):
            values = _JSON_KEY.sub(" ", _plain(text))
            yield from find(_JSON_ESCAPE.sub(_unescaped, values))


def _plain(text: str) -> str:
    """Return the part of a text to search: its two ends, with embedded results unescaped."""
    text = _ends(text)
    return _NOTE.sub(" ", sanitised(unescape(text) if "&quot;" in text else text))


def _ends(text: str) -> str:
    if len(text) <= _MAX_TEXT_CHARS:
        return text
    return f"{text[: _MAX_TEXT_CHARS // 2]}\n{text[-_MAX_TEXT_CHARS // 2 :]}"


def _unescaped(match: re.Match[str]) -> str:
    return _UNESCAPED.get(match[1], "\n")


def _fitting(
    facts: Iterable[Fact], known: str, tokens: int, count: Callable[[str], int]
) -> list[Fact]:
    """Return the facts that neither the known text nor an earlier fact has, within the budget."""
    chosen = []
    labelled: set[FactKind] = set()
    misfits = 0
    for fact in facts:
        if misfits > _MAX_MISFITS:
            break
        if _mentions(known, fact.text):
            continue
        cost = count(fact.shown) + _SEPARATOR_TOKENS + _LABEL_TOKENS * (fact.kind not in labelled)
        if cost > tokens:
            misfits += 1
            continue
        tokens -= cost
        labelled.add(fact.kind)
        known += f"\n{fact.shown}"
        chosen.append(fact)
    return chosen


def _mentions(known: str, text: str) -> bool:
    """Return whether a text contains a fact, and not only as part of a longer word."""
    text = text.rstrip(".!。")
    start = known.find(text)
    while start >= 0:
        end = start + len(text)
        if not (_is_inside_word(known, start) or _is_inside_word(known, end)):
            return True
        start = known.find(text, end)
    return False


def _is_inside_word(text: str, place: int) -> bool:
    return _INSIDE.fullmatch(text[max(0, place - 1) : place + 1]) is not None


def _written(facts: Sequence[Fact]) -> str:
    """Return demands and errors on a line each, and the other facts on one line per kind."""
    lines = [f"- {_PREFIXES[fact.kind]}{fact.shown}" for fact in facts if fact.kind in _PREFIXES]
    for kind, label in _LABELS.items():
        shown = [fact.shown for fact in facts if fact.kind == kind]
        if shown:
            lines.append(f"- {label}: {', '.join(shown)}")
    return "\n".join(lines)
