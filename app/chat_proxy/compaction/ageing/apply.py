"""Show tool results, calls and media of a conversation as their treatments say."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.details_blocks import embedded_results, with_embedded_results
from chat_proxy.chat.media import MAX_DEPTH, Path, is_media, nested_parts, with_inline_data
from chat_proxy.chat.message import Message
from chat_proxy.chat.result_texts import texts_in
from chat_proxy.chat.tool_names import ResultCall, call_of_results
from chat_proxy.compaction.ageing.line import LONGEST_LINE, RESULT_NOTE, line_of
from chat_proxy.compaction.ageing.short import short_result
from chat_proxy.compaction.ageing.short_calls import with_cleared_calls, with_short_calls
from chat_proxy.compaction.ageing.treatments import CLEARED, WHOLE_MESSAGE, Place, Treatments
from chat_proxy.compaction.media_notes import details_of, is_media_note, media_note, said_after
from chat_proxy.compaction.tool_results import rendered_texts
from chat_proxy.compaction.truncate_text import byte_count, place_in

SmallerImages = Mapping[Place, tuple[str, str]]
"""The type and the base64 of each image that is scaled down."""
NO_IMAGES: Final[SmallerImages] = MappingProxyType({})

Where = Callable[[str, int], str]
"""Returns a note that names the place of a whole text of a message, beginning with a space; empty
if none. The number is the message's in the client's list."""
Name = Callable[[int], str]
"""Returns the name of a message by its number in the client's list."""

_LONGEST_NOTE: Final = 2 * LONGEST_LINE


class Slot(NamedTuple):
    """A media part, or the note that replaced one: notes count, so media keep their numbers."""

    path: Path
    part: dict[str, Any]


def nowhere(_: str, __: int) -> str:
    """Return no note: the whole text is not stored anywhere."""
    return ""


def numbered(number: int) -> str:
    """Return a message's number as its name."""
    return f"#{number}"


def age(
    conversation: Conversation,
    treatments: Treatments,
    where: Where = nowhere,
    spoken: Conversation | None = None,
    smaller: SmallerImages = NO_IMAGES,
    name: Name = numbered,
) -> Conversation:
    """Return the conversation with the treatments applied; the same object if nothing changes.

    Applying them again, whole or in parts, changes nothing more. `spoken` is the conversation
    before anything was cut in it: notes of media quote the answers in it. `smaller` has the scaled
    images; one that is not in it stays as it is. `name` is how notes of media name their message.
    """
    if not treatments:
        return conversation
    ageing = _Ageing(treatments, where, call_of_results(conversation), spoken or conversation)
    ageing.smaller = smaller
    ageing.name = name
    changed = {}
    for index, origin in enumerate(conversation.origins):
        if origin is not None and origin in ageing.origins:
            before = conversation.messages[index]
            after = ageing.message(before, index, origin)
            if after is not before:
                changed[index] = after
    return conversation.with_messages(changed)


class _Ageing:
    """The treatments by message, and what the notes need to know."""

    def __init__(
        self,
        treatments: Treatments,
        where: Where,
        calls: Mapping[int, ResultCall],
        spoken: Conversation,
    ) -> None:
        self._lines = _by_origin(treatments.lines)
        self._media = _by_origin(treatments.media)
        self._short = _sizes_by_origin(treatments.short)
        self._calls = _sizes_by_origin(treatments.calls)
        self._where = where
        self._call_of = calls
        self._spoken = spoken
        self._scaled = _sizes_by_origin(treatments.scaled)
        self._told = treatments.told
        self.smaller: SmallerImages = NO_IMAGES
        self.name: Name = numbered
        self.origins = (
            self._lines.keys()
            | self._media.keys()
            | self._short.keys()
            | self._calls.keys()
            | self._scaled.keys()
        )

    def message(self, message: Message, index: int, origin: int) -> Message:
        """Return one message with all its treatments applied."""
        call = self._call_of.get(index, ResultCall())
        after = self._with_lines(message, self._lines.get(origin, ()), call, origin)
        after = self._with_short(after, self._short.get(origin, {}), call, origin)
        calls = self._calls.get(origin, {})
        after = with_short_calls(after, calls.get(WHOLE_MESSAGE))
        after = with_cleared_calls(after, calls.keys() - {WHOLE_MESSAGE})
        after = self._with_smaller_images(after, self._scaled.get(origin, {}), origin)
        return self._without_media(after, self._media.get(origin, ()), index, origin)

    def _with_smaller_images(
        self, message: Message, sides: Mapping[int, int], origin: int
    ) -> Message:
        if not sides:
            return message
        media = {medium.path: medium for medium in message.media()}
        changed: dict[Path, Any] = {}
        for number, (path, part) in enumerate(media_slots(message)):
            image = self.smaller.get(Place(origin, number)) if number in sides else None
            if image is not None and path in media:
                changed[path] = with_inline_data(part, media[path], *image)
        return message.with_parts(changed)

    def _without_media(
        self, message: Message, parts: Collection[int], index: int, origin: int
    ) -> Message:
        """Replace media by notes that say what they were and what the answer said about them."""
        if not parts:
            return message
        media = {medium.path: medium for medium in message.media()}
        said = said_after(self._spoken.messages, index)
        changed: dict[Path, Any] = {}
        for number, (path, part) in enumerate(media_slots(message)):
            if number in parts and path in media:
                medium = media[path]
                told = self._told.get(Place(origin, number), "")
                note = media_note(
                    medium.mime, details_of(medium, part, self.name(origin), said, told)
                )
                changed[path] = _text_part(note, [part])
        return message.with_parts(changed)

    def _with_lines(
        self, message: Message, parts: Collection[int], call: ResultCall, origin: int
    ) -> Message:
        if message.is_tool_result and WHOLE_MESSAGE in parts:
            return self._with_line(message, call, origin)
        return _with_embedded_results(
            message, parts, lambda _, tool, text: self._line(text, ResultCall(tool), origin)
        )

    def _with_short(
        self, message: Message, sizes: Mapping[int, int], call: ResultCall, origin: int
    ) -> Message:
        if message.is_tool_result and WHOLE_MESSAGE in sizes:
            if sizes[WHOLE_MESSAGE] == CLEARED:
                return self._cleared(message, call, origin)
            return self._with_short_texts(message, sizes[WHOLE_MESSAGE], call.tool, origin)
        return _with_embedded_results(
            message,
            sizes,
            lambda part, tool, text: self._shortened(text, sizes[part], tool, origin),
        )

    def _with_line(self, message: Message, call: ResultCall, origin: int) -> Message:
        """Replace the texts by their line, in the same form, if that is shorter; media stay."""
        texts = [text for text in rendered_texts(message) if not is_media_note(text)]
        text = "\n".join(texts)
        line = self._line(text, call, origin)
        if line == text:
            return message
        content = message.content
        if type(content) is str:
            return message.with_content(line)
        if type(content) is dict:
            return message.with_content(_text_part(line, [content]))
        media = [part for part in content if type(part) is dict and _is_slot(part)]
        others = [part for part in content if not any(part is it for it in media)]
        return message.with_content([_text_part(line, others), *media])

    def _cleared(self, message: Message, call: ResultCall, origin: int) -> Message:
        """Replace everything, media too, by a line or a bare note; only if that is shorter."""
        text = "\n".join(rendered_texts(message))
        if type(message.content) is str and _is_line(text):
            return message
        line = line_of(text, call, self._place_of(text, origin))
        if line != text:
            return message.with_content(line)
        if len(RESULT_NOTE) >= len(text) and not any(message.media()):
            return message
        return message.with_content(RESULT_NOTE)

    def _line(self, text: str, call: ResultCall, origin: int) -> str:
        return text if _is_line(text) else line_of(text, call, self._place_of(text, origin))

    def _shortened(self, text: str, max_bytes: int, tool: str, origin: int) -> str:
        if byte_count(text) <= max_bytes:
            return text
        return short_result(text, max_bytes, tool, self._place_of(text, origin))

    def _place_of(self, text: str, origin: int) -> str:
        """Return the note of the whole text's place; a text that was cut before names it."""
        return place_in(text) or self._where(text, origin)

    def _with_short_texts(
        self, message: Message, max_bytes: int, tool: str, origin: int
    ) -> Message:
        """Shorten the texts until together they fit the limit; the longest lose the most."""
        texts = [(path, text) for path, text in texts_in(message) if not is_media_note(text)]
        texts.sort(key=lambda item: byte_count(item[1]))
        changed: dict[Path, Any] = {}
        remaining = max_bytes
        for number, (path, text) in enumerate(texts):
            shorter = self._shortened(text, remaining // (len(texts) - number), tool, origin)
            remaining = max(0, remaining - byte_count(shorter))
            if shorter != text:
                changed[path] = shorter
        return message.with_parts(changed)


def _is_line(text: str) -> bool:
    return text.startswith(RESULT_NOTE) and len(text) <= _LONGEST_NOTE


def _with_embedded_results(
    message: Message, parts: Collection[int], change: Callable[[int, str, str], str]
) -> Message:
    """Change results embedded in assistant text, numbered across all texts of the message."""
    if not parts or not message.is_assistant:
        return message
    changed: dict[Path, Any] = {}
    first = 0
    for path, text in texts_in(message):
        results = embedded_results(text)
        replacements = {
            number: new_text
            for number, result in enumerate(results)
            if first + number in parts
            and (new_text := change(first + number, result.name, result.text)) != result.text
        }
        first += len(results)
        if replacements:
            changed[path] = with_embedded_results(text, replacements)
    return message.with_parts(changed)


def _sizes_by_origin(sizes: Mapping[Place, int]) -> dict[int, dict[int, int]]:
    by_origin: dict[int, dict[int, int]] = defaultdict(dict)
    for place, size in sizes.items():
        by_origin[place.origin][place.part] = size
    return dict(by_origin)


def media_slots(message: Message) -> list[Slot]:
    """Return the message's media and the notes of cleared media, in order."""
    content = message.content
    if type(content) is list:
        return list(_slots_of_list(content, ("content",), MAX_DEPTH))
    return list(_slots_of_part(content, ("content",), MAX_DEPTH))


def _by_origin(places: Iterable[Place]) -> dict[int, set[int]]:
    parts = defaultdict(set)
    for origin, part in places:
        parts[origin].add(part)
    return dict(parts)


def _text_part(text: str, replaced: Iterable[Any]) -> dict[str, Any]:
    """Return a text part with the last `cache_control` of the parts that it replaces."""
    part: dict[str, Any] = {"type": "text", "text": text}
    for other in replaced:
        if type(other) is dict and "cache_control" in other:
            part["cache_control"] = other["cache_control"]
    return part


def _slots_of_list(parts: list[Any], path: Path, depth: int) -> Iterator[Slot]:
    for index, part in enumerate(parts):
        yield from _slots_of_part(part, (*path, index), depth)


def _slots_of_part(part: Any, path: Path, depth: int) -> Iterator[Slot]:
    if type(part) is not dict:
        return
    if _is_slot(part):
        yield Slot(path, part)
    elif depth > 1 and (nested := nested_parts(part)) is not None:
        yield from _slots_of_list(nested[1], path + nested[0], depth - 1)


def _is_slot(part: dict[str, Any]) -> bool:
    return is_media(part) or _is_media_note(part)


def _is_media_note(part: dict[str, Any]) -> bool:
    text = part.get("text")
    if part.get("type") != "text" or type(text) is not str or nested_parts(part) is not None:
        return False
    return is_media_note(text)
