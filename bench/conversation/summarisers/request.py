"""How a stand-in summariser reads a request: what it is to write, and from what."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from bench.conversation.prompt import Json, Prompt, text_of

PURPOSE_HEADER = "x-chat-proxy-purpose"
SUMMARY = "summary"
CUE = "Do not answer or continue the conversation"
REPAIR_CUE = "Your summary lacks"
# As the gateways of others ask for a summary, in the last message.
OTHER_CUES = ("CONTEXT CHECKPOINT COMPACTION", "write a summary of the transcript")
NO_LIMIT = 4_096
_FRAME = re.compile(r"<<<(\w+) (\w+)>>>\n(.*?)\n<<<end \2>>>", re.DOTALL)
_HEADING = re.compile(r"(#{2,3}) ([^(\n]+?)\s*(?:\(.*\))?\s*$")
_LEAST_OUTLINE = 3


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading that the instruction asks for; a section of level 3 belongs to the one above."""

    level: int
    name: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that the summariser was given, and the role that said it."""

    role: str
    text: str


def is_asked_for(prompt: Prompt, purpose: str | None = None) -> bool:
    """Tell whether a request asks for a summary: by its header, else by its last message."""
    if purpose is not None:
        return purpose == SUMMARY
    last = text_of(prompt.messages[-1])
    return CUE in last or is_repair(prompt) or any(cue in last for cue in OTHER_CUES)


def is_repair(prompt: Prompt) -> bool:
    """Tell whether a request asks for a summary again because sections were missing."""
    return REPAIR_CUE in text_of(prompt.messages[-1])


def max_tokens_of(fields: Json) -> int:
    """Return how long an answer may be."""
    return int(fields.get("max_tokens") or fields.get("max_completion_tokens") or NO_LIMIT)


def passages(prompt: Prompt) -> list[Passage]:
    """Return all texts but the leading instructions and the instruction to summarise."""
    *others, last = [message for message in prompt.messages if message["role"] != "system"]
    given = [it for message in others for it in _of(message)]
    return [*given, *_beside_instruction(text_of(last))]


def headings(prompt: Prompt) -> list[Heading]:
    """Return the headings that the instruction asks for: its longest run of heading lines."""
    runs: list[list[Heading]] = [[]]
    for line in text_of(prompt.messages[-1]).splitlines():
        if found := _HEADING.match(line):
            runs[-1].append(Heading(len(found[1]), found[2]))
        elif runs[-1]:
            runs.append([])
    longest = max(reversed(runs), key=len)
    if len(longest) >= _LEAST_OUTLINE:
        return longest
    return list(dict.fromkeys(heading for run in runs for heading in run))


def written(outline: Sequence[Heading], bullets: dict[str, list[str]]) -> str:
    """Return a summary: every heading, its bullets, and "(none)" where there are none.

    Without an outline it has bullets alone.
    """
    if not outline:
        return "\n".join(f"- {text}" for texts in bullets.values() for text in texts)
    return "\n".join(_lines(outline, bullets))


def section_for(role: str, outline: Sequence[Heading]) -> str:
    """Return the section in which a summariser notes what this role said."""
    return section_about({"user": "Preferences", "assistant": "Done"}.get(role, ""), outline)


def section_about(subject: str, outline: Sequence[Heading]) -> str:
    """Return the section that has this word in its name, else the one for all other facts."""
    names = [heading.name for heading in leaves(outline)] or [""]
    for word in filter(None, (subject, "Context")):
        for name in names:
            if word in name:
                return name
    return names[-1]


def leaves(outline: Sequence[Heading]) -> Iterator[Heading]:
    """Yield the headings that have no other one below them."""
    for heading, following in zip_longest(outline, outline[1:]):
        if following is None or following.level <= heading.level:
            yield heading


def _of(message: Json) -> Iterator[Passage]:
    if CUE in text_of(message):
        yield from _beside_instruction(text_of(message))
        return
    calls = [call["function"] for call in message.get("tool_calls") or []]
    called = [f"{call['name']} {call['arguments']}" for call in calls]
    text = "\n".join([text_of(message), *called])
    yield Passage(message["role"], text)


def _beside_instruction(text: str) -> Iterator[Passage]:
    """Yield what the last message has beside the instruction: framed messages, and other text."""
    for role, _, framed in _FRAME.findall(text):
        yield Passage(role, framed)
    before, cue, _ = _FRAME.sub("", text).partition(CUE)
    if cue and before.strip():
        yield Passage("tool", before)


def _lines(outline: Sequence[Heading], bullets: dict[str, list[str]]) -> Iterator[str]:
    lowest = set(leaves(outline))
    for heading in outline:
        yield f"{'#' * heading.level} {heading.name}"
        if heading in lowest:
            yield from (f"- {text}" for text in bullets.get(heading.name) or ["(none)"])
