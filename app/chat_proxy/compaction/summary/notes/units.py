"""The pieces of messages from which notes are chosen: sentences, calls, lines of tool output."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from chat_proxy.chat.details_blocks import embedded_results, with_embedded_results
from chat_proxy.chat.message import Message
from chat_proxy.chat.tool_names import ResultCall
from chat_proxy.compaction.ageing.important import (
    exit_status,
    is_error,
    is_failing_test,
    reads_files,
)
from chat_proxy.compaction.ageing.line import cut_end, shown_call
from chat_proxy.compaction.ageing.unwrap import unwrapped
from chat_proxy.compaction.media_notes import (
    details_in,
    is_media_note,
    name_and_size,
    part_of,
    said_after,
)
from chat_proxy.compaction.summary.notes.arguments import details_behind
from chat_proxy.compaction.summary.notes.demands import demands_in
from chat_proxy.compaction.summary.notes.telegraphic import sentences_of, telegraphic
from chat_proxy.compaction.summary.sanitise import sanitised
from chat_proxy.compaction.summary.validation.foreign import NOTE, without_keys
from chat_proxy.compaction.summary.validation.reasoning import without_leading_thoughts

LONGEST_UNIT: Final = 240
LONGEST_IMAGE: Final = 300
IMAGE: Final = "image"
"""The speaker of a unit that tells about a medium."""
MAX_RESULT_CHARS: Final = 24_000
MAX_TEXT_CHARS: Final = 40_000
MOST_ALIKE: Final = 12
LEFT_OF_RUN: Final = 2

_VALUE = re.compile(
    r"[\w)\]\"'-]\s*(?:[:=]|is|→|->)\s*[\"']?[$€£#]?-?\w{0,40}\d"
    r"|\b\d++(?:[.,]\d*+)?\s?[A-Za-z%]"
)
_QUESTION_WEIGHT = 0.6
_NUMBER_WEIGHT = 1.5
"""The weight of a user's sentence with a number: such facts are short and cannot be guessed."""
_SHAPE = re.compile(r"[0-9a-f]{6,}|\d+|\"[^\"\n]{0,80}\"|'[^'\n]{0,80}'", re.IGNORECASE)

NumberedMessage = tuple[int, Message]
"""A message and its number: its index in the client's list."""


class Unit(NamedTuple):
    """One candidate for a note."""

    message: int
    speaker: str
    text: str
    weight: float
    """How much its words count in comparison with others."""
    is_required: bool = False
    """Whether it is chosen before all others: a demand of the user, a failing test."""


def units_of(
    messages: Sequence[NumberedMessage],
    calls: Mapping[int, ResultCall],
    told: Mapping[int, str] = MappingProxyType({}),
) -> list[Unit]:
    """Return the units of messages, in order; `calls` has the call of each result's number.

    `told` has what a model wrote about the images of a message; else the answer to it counts.
    """
    found: list[Unit] = []
    speakers = [message for _, message in messages]
    for index, (number, message) in enumerate(messages):
        found += _units(number, message, calls)
        if type(message.content) in (list, dict) or _is_note(message.content):
            said = told.get(number) or said_after(speakers, index)
            found += _image_units(number, message, said)
    return list(_without_runs(found))


def _without_runs(units: Sequence[Unit]) -> Iterator[Unit]:
    """Yield the units; a line of tool output weighs less, the more lines look like it.

    Of lines of one result that only differ in their numbers, as a log has them, the first few are
    left. The same line with another value in every result is no run.
    """
    shapes = [_shape_of(unit) for unit in units]
    alike = Counter(shapes)
    in_result = Counter((unit.message, shape) for unit, shape in zip(units, shapes, strict=True))
    seen: Counter[tuple[int, str]] = Counter()
    for unit, shape in zip(units, shapes, strict=True):
        if not shape:
            yield unit
            continue
        run = (unit.message, shape)
        seen[run] += 1
        if in_result[run] <= MOST_ALIKE or seen[run] <= LEFT_OF_RUN:
            yield unit._replace(weight=unit.weight / alike[shape] ** 0.7)


def _shape_of(unit: Unit) -> str:
    """Return a line of tool output without its numbers and quotes; empty for other units."""
    return "" if unit.speaker != "tool" or unit.is_required else shape_of_line(unit.text)


def shape_of_line(line: str) -> str:
    """Return a line without its numbers and quotes: lines of a log have the same."""
    return _SHAPE.sub("0", line)


def _units(number: int, message: Message, calls: Mapping[int, ResultCall]) -> Iterator[Unit]:
    if message.is_tool_result:
        text = "\n".join(text for _, text in _texts(message))
        yield from _result_units(number, text, calls.get(number, ResultCall()))
    elif message.is_user:
        yield from _user_units(number, message)
    else:
        yield from _assistant_units(number, message)


def _texts(message: Message) -> list[tuple[str, str]]:
    bare: dict[str, Any] = {"role": message.role, "content": message.content}
    return [piece for piece in Message(bare).pieces() if piece[0] in ("text", "tool_result")]


def _user_units(number: int, message: Message) -> Iterator[Unit]:
    for _, text in _texts(message):
        if is_media_note(text):
            continue
        sentences = sentences_of(_clean(_ends(text, MAX_TEXT_CHARS)))
        demands = demands_in(sentences)
        for index, sentence in enumerate(sentences):
            if index in demands:
                yield Unit(number, "user", demands[index], 2.0, is_required=True)
            elif not any(sentence in demand for demand in demands.values()):
                yield from _spoken(number, "user", sentence)


def _image_units(number: int, message: Message, said: str) -> Iterator[Unit]:
    """Yield what each medium was and what the answer said about it.

    Those that the user brought are required: nothing else in the history tells what they showed.
    """
    is_required = message.is_user
    for medium in message.media():
        part = part_of(medium, message.fields)
        about = name_and_size(medium, part) or f"{medium.kind} of type {medium.mime}"
        text = f"{about}: {telegraphic(said)}" if said else about
        yield Unit(number, IMAGE, cut_end(text, LONGEST_IMAGE), 1.0, is_required)
    for _, text in _texts(message):
        if details := details_in(text):
            yield Unit(number, IMAGE, cut_end(_clean(details), LONGEST_IMAGE), 1.0, is_required)


def _assistant_units(number: int, message: Message) -> Iterator[Unit]:
    speaker = "assistant" if message.is_assistant else message.role or "message"
    for _, raw in _texts(message):
        text = without_leading_thoughts(raw)
        results = embedded_results(text)
        for result in results:
            yield from _result_units(number, result.text, ResultCall(result.name))
        if results:
            text = with_embedded_results(text, dict.fromkeys(range(len(results)), ""))
        for sentence in sentences_of(_clean(_ends(text, MAX_TEXT_CHARS))):
            yield from _spoken(number, speaker, sentence)


def _spoken(number: int, speaker: str, sentence: str) -> Iterator[Unit]:
    text = telegraphic(sentence)
    weight = _QUESTION_WEIGHT if sentence.endswith("?") else 1.0
    if speaker == "user" and any(map(str.isdigit, text)):
        weight *= _NUMBER_WEIGHT
    if any(map(str.isalnum, text)):
        yield Unit(number, speaker, cut_end(text, LONGEST_UNIT), weight)


def _result_units(number: int, text: str, call: ResultCall) -> Iterator[Unit]:
    """Yield the call with its result's size and status, then the lines of the result."""
    inner = unwrapped(_ends(text, MAX_RESULT_CHARS))
    status = exit_status(inner)
    facts = f"{len(text):,} chars" + (f"; exit {status}" if status else "")
    shown = shown_call(call._replace(arguments=without_keys(call.arguments[:MAX_TEXT_CHARS])))
    if details := details_behind(shown, call):
        shown = f"{shown} {details}"
    yield Unit(number, "call", f"{shown} → {facts}", 2.0)
    is_file = reads_files(call.tool)
    for line in _clean(inner).splitlines():
        shown = cut_end(" ".join(line.split()), LONGEST_UNIT)
        if sum(map(str.isalnum, shown.replace(NOTE, ""))) < 4:
            continue
        if not is_file and is_failing_test(shown):
            yield Unit(number, "tool", shown, 4.0, is_required=True)
        elif not is_file and is_error(shown):
            yield Unit(number, "tool", shown, 2.0)
        else:
            yield Unit(number, "tool", shown, 1.0 if _VALUE.search(shown) else 0.3)


def _clean(text: str) -> str:
    """Return a text without keys, payloads and control tokens."""
    return sanitised(without_keys(text))


def _ends(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    return f"{text[: max_chars // 2]}\n{text[-max_chars // 2 :]}"


def _is_note(content: Any) -> bool:
    return type(content) is str and is_media_note(content)
