"""The second net under a summary: facts that it lost, found again without a model."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Final

from chat_proxy.chat.message import Message
from chat_proxy.compaction.summary.facts import Fact, FactKind, facts_in, facts_of_user
from chat_proxy.compaction.summary.sanitise import sanitised

CONSTRAINTS_SHARE: Final = 0.5

# So many facts of each message come before any further ones: one pasted log must not fill it all.
_FACTS_AT_A_TIME = 25
_MOST_MISFITS = 8
_LONGEST_TEXT = 40_000
_MOST_CHARS = 300_000
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
class _Sighting:
    """A fact, and where it was seen."""

    fact: Fact
    newest: int
    rank: int
    by_user: bool
    messages: int = 0
    is_told: bool = False
    """Whether the assistant named it in its own words."""

    @property
    def matters(self) -> bool:
        return self.by_user or self.messages > 1

    @property
    def urgency(self) -> tuple[int, int, int, int]:
        """What the user demands, what was said, what only came back; of each the newest first."""
        tier = 1 if self.by_user else 2 if self.is_told else 3
        if self.fact.kind == "constraint":
            tier = 0
        return tier, self.rank // _FACTS_AT_A_TIME, -self.newest, self.rank


def ledger(
    messages: Sequence[Message], summary: str, budget_tokens: int, count: Callable[[str], int]
) -> str:
    """Return lines with the facts of the messages that the summary has not, within the budget."""
    sightings = (sighting for sighting in _sightings(messages) if sighting.matters)
    facts = [sighting.fact for sighting in sorted(sightings, key=lambda it: it.urgency)]
    demands = [fact for fact in facts if fact.kind == "constraint"]
    chosen = _fitting(demands, summary, int(budget_tokens * CONSTRAINTS_SHARE), count)
    lines = _written(chosen)
    others = facts[len(demands) :]
    chosen += _fitting(others, f"{summary}\n{lines}", budget_tokens - count(lines), count)
    while chosen and count(_written(chosen)) > budget_tokens:
        del chosen[-1 - len(chosen) // 8 :]
    return _written(chosen)


def with_ledger(summary: str, lines: str) -> str:
    """Return the summary with the lines at the end of its critical context."""
    if not lines:
        return summary
    before, heading, after = f"\n{summary}\n".partition(f"\n{_HEADING}\n")
    body, next_heading, rest = after.partition("\n## ") if heading else ("", "", "")
    said = [line for line in body.splitlines() if line.strip() and line.strip("-* ") != "(none)"]
    whole = "\n".join([before.rstrip(), _HEADING, *said, lines]) + next_heading + rest
    return whole.strip()


def _sightings(messages: Sequence[Message]) -> Iterable[_Sighting]:
    found: dict[str, _Sighting] = {}
    reach, reach_of_words = _reach(messages, _all_texts), _reach(messages, _own_words)
    for index, message in enumerate(messages):
        told = _by_text(_told_by(message)) if index >= reach_of_words else {}
        is_read = message.is_user or index >= reach
        facts = _by_text(_facts_of(message)) if is_read else told
        for rank, (text, fact) in enumerate(facts.items()):
            seen = found.setdefault(text, _Sighting(fact, index, rank, message.is_user))
            seen.messages += 1
            if text in told:
                seen.is_told = True
                seen.messages += _was_shown(text, messages, index)
            # What the user said stays the user's, whoever repeats it.
            if message.is_user or not seen.by_user:
                seen.fact, seen.newest, seen.rank = fact, index, rank
                seen.by_user = message.is_user
    return found.values()


def _by_text(facts: Iterable[Fact]) -> dict[str, Fact]:
    by_text: dict[str, Fact] = {}
    for fact in facts:
        by_text.setdefault(fact.text, fact)
    return by_text


def _told_by(message: Message) -> Iterator[Fact]:
    """Yield the facts in an assistant's own words, its calls left out."""
    for text in _own_words(message):
        yield from facts_in(_plain(text))


def _own_words(message: Message) -> list[str]:
    if not message.is_assistant:
        return []
    return [text for kind, text in message.pieces() if kind == "text"]


def _all_texts(message: Message) -> list[str]:
    return [text for _, text in message.pieces()]


def _was_shown(text: str, messages: Sequence[Message], index: int) -> bool:
    """Tell whether one of the results right before a message has a text."""
    while index and messages[index - 1].is_tool_result:
        index -= 1
        if any(text in _ends(shown) for shown in _all_texts(messages[index])):
            return True
    return False


def _reach(messages: Sequence[Message], texts_of: Callable[[Message], list[str]]) -> int:
    """Return from where on all such texts are read: the newest only, to bound the work."""
    chars = 0
    for index in range(len(messages) - 1, -1, -1):
        chars += sum(min(len(text), _LONGEST_TEXT) for text in texts_of(messages[index]))
        if chars > _MOST_CHARS:
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
    """Return what can hold facts: the ends of a text; results folded into it are escaped there."""
    text = _ends(text)
    return _NOTE.sub(" ", sanitised(unescape(text) if "&quot;" in text else text))


def _ends(text: str) -> str:
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[: _LONGEST_TEXT // 2]}\n{text[-_LONGEST_TEXT // 2 :]}"


def _unescaped(match: re.Match[str]) -> str:
    return _UNESCAPED.get(match[1], "\n")


def _fitting(
    facts: Iterable[Fact], known: str, tokens: int, count: Callable[[str], int]
) -> list[Fact]:
    """Return the facts that neither the known text nor an earlier one has, while there is room."""
    chosen = []
    labelled: set[FactKind] = set()
    misfits = 0
    for fact in facts:
        if misfits > _MOST_MISFITS:
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
    """Tell whether a fact stands in a text, and not only as a part of a longer word."""
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
    """Write demands and errors each on its line, and the others on one line for each kind."""
    lines = [f"- {_PREFIXES[it.kind]}{it.shown}" for it in facts if it.kind in _PREFIXES]
    for kind, label in _LABELS.items():
        shown = [it.shown for it in facts if it.kind == kind]
        if shown:
            lines.append(f"- {label}: {', '.join(shown)}")
    return "\n".join(lines)
