"""Apply a clearing to a conversation; the same input always gives the same bytes."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.details_blocks import embedded_results, with_embedded_results
from chat_proxy.chat.media import MAX_DEPTH, Path, is_media, nested_parts
from chat_proxy.chat.message import Message
from chat_proxy.chat.result_texts import texts_in
from chat_proxy.compaction.clearing import WHOLE_MESSAGE, Clearing, Place
from chat_proxy.compaction.tool_results import rendered_texts
from chat_proxy.compaction.truncate_text import Note, byte_count, omission_note, shortened

RESULT_NOTE: Final = "[Old tool result content cleared]"

_MEDIA_NOTE: Final = re.compile(
    r"\[Old inline media cleared: [a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,60}\]"
)
_OFFLOAD_NOTE: Final = re.compile(
    r"\[Tool output truncated: omitted \d{1,20} chars\] \[offload id: ([0-9a-f]{1,64})\]"
)


class Slot(NamedTuple):
    """A media part, or the note that replaced one: notes count, so media keep their numbers."""

    path: Path
    part: dict[str, Any]


def clear(conversation: Conversation, clearing: Clearing, old_max_bytes: int) -> Conversation:
    """Return the conversation with the clearing applied; the same object if nothing changes.

    Applying a clearing again, whole or in parts, changes nothing more.
    """
    results = _by_origin(clearing.results)
    shorter = _by_origin(clearing.shortened)
    media = _by_origin(clearing.media)
    touched = results.keys() | shorter.keys() | media.keys()
    changed = {}
    for index, origin in enumerate(conversation.origins if touched else ()):
        if origin is not None and origin in touched:
            before = conversation.messages[index]
            after = _without_results(before, results.get(origin, ()))
            after = _with_shorter_results(after, shorter.get(origin, ()), old_max_bytes)
            after = _without_media(after, media.get(origin, ()))
            if after is not before:
                changed[index] = after
    return conversation.with_messages(changed)


def media_note(mime: str) -> str:
    """Return the note that replaces a medium of this type."""
    return f"[Old inline media cleared: {mime}]"


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


def _without_results(message: Message, parts: Collection[int]) -> Message:
    if message.is_tool_result and WHOLE_MESSAGE in parts:
        return _with_result_note(message)
    return _with_embedded_results(message, parts, _note_if_shorter)


def _with_shorter_results(message: Message, parts: Collection[int], max_bytes: int) -> Message:
    if message.is_tool_result and WHOLE_MESSAGE in parts:
        return _with_shorter_texts(message, max_bytes)
    return _with_embedded_results(message, parts, lambda text: _shortened(text, max_bytes))


def _with_result_note(message: Message) -> Message:
    """Replace the content by the note, in the same form, if its text is longer than the note."""
    texts = [text for text in rendered_texts(message) if not _MEDIA_NOTE.fullmatch(text)]
    if sum(map(len, texts)) <= len(RESULT_NOTE):
        return message
    content = message.content
    if type(content) is str:
        return message.with_content(RESULT_NOTE)
    if type(content) is dict:
        return message.with_content(_text_part(RESULT_NOTE, [content]))
    return message.with_content([_text_part(RESULT_NOTE, content)])


def _note_if_shorter(text: str) -> str:
    return RESULT_NOTE if len(text) > len(RESULT_NOTE) else text


def _shortened(text: str, max_bytes: int) -> str:
    return shortened(text, max_bytes, _omission_note_for(text))


def _omission_note_for(text: str) -> Note:
    """Return the note builder for a text; a text that was truncated before keeps its offload id."""
    earlier = _OFFLOAD_NOTE.search(text)
    offload_id = earlier[1] if earlier else None
    return lambda omitted: omission_note(omitted, offload_id)


def _with_embedded_results(
    message: Message, parts: Collection[int], change: Callable[[str], str]
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
            if first + number in parts and (new_text := change(result.text)) != result.text
        }
        first += len(results)
        if replacements:
            changed[path] = with_embedded_results(text, replacements)
    return message.with_parts(changed)


def _with_shorter_texts(message: Message, max_bytes: int) -> Message:
    """Shorten the texts until together they fit the limit; the longest lose the most."""
    texts = [(path, text) for path, text in texts_in(message) if not _MEDIA_NOTE.fullmatch(text)]
    texts.sort(key=lambda item: byte_count(item[1]))
    changed: dict[Path, Any] = {}
    remaining = max_bytes
    for number, (path, text) in enumerate(texts):
        shorter = _shortened(text, remaining // (len(texts) - number))
        remaining = max(0, remaining - byte_count(shorter))
        if shorter != text:
            changed[path] = shorter
    return message.with_parts(changed)


def _without_media(message: Message, parts: Collection[int]) -> Message:
    if not parts:
        return message
    mimes = {medium.path: medium.mime for medium in message.media()}
    changed: dict[Path, Any] = {}
    for number, (path, part) in enumerate(media_slots(message)):
        if number in parts and path in mimes:
            changed[path] = _text_part(media_note(mimes[path]), [part])
    return message.with_parts(changed)


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
    if is_media(part) or _is_media_note(part):
        yield Slot(path, part)
    elif depth > 1 and (nested := nested_parts(part)) is not None:
        yield from _slots_of_list(nested[1], path + nested[0], depth - 1)


def _is_media_note(part: dict[str, Any]) -> bool:
    text = part.get("text")
    if part.get("type") != "text" or type(text) is not str or nested_parts(part) is not None:
        return False
    return bool(_MEDIA_NOTE.fullmatch(text))
