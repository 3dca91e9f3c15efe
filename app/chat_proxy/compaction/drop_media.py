"""Give up media for a request that its upstream found too long: older ones first."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.media import Media, Path
from chat_proxy.chat.message import Message
from chat_proxy.compaction.apply_clearing import clear, media_slots
from chat_proxy.compaction.clearing import Clearing, Place

LEFT_OUT_NOTE: Final = (
    "Some attachments were too large for the model's context window and were left out."
)
NAMELESS: Final = "file"
LONGEST_NAME: Final = 80

_NAME_KEYS = ("filename", "file_name", "name", "title", "uri")
_SCANNED_CHARS = 400


class _Attachment(NamedTuple):
    message: int
    path: Path
    note: dict[str, Any]


def older_media(conversation: Conversation) -> Clearing:
    """Return all media of the client's own messages outside the current turn, to be cleared."""
    turn = conversation.current_turn
    current = range(turn.start, turn.end) if turn else range(0)
    places = set()
    for index, message in enumerate(conversation.messages):
        origin = conversation.origins[index]
        if origin is not None and index not in current:
            media = {medium.path for medium in message.media()}
            slots = enumerate(media_slots(message) if media else ())
            places |= {Place(origin, number) for number, slot in slots if slot.path in media}
    return Clearing(media=frozenset(places))


def without_older_media(conversation: Conversation) -> Conversation:
    """Exchange all media outside the current turn for a note; the same object if there are none."""
    return clear(conversation, older_media(conversation), old_max_bytes=0)


def without_current_media(conversation: Conversation, keep: int = 0) -> Conversation:
    """Exchange the media of the current turn for their names, all but the newest `keep`.

    Each message that loses one says so to the model, once. The same object if none goes.
    """
    attachments = list(_attachments(conversation))
    gone: dict[int, dict[Path, Any]] = {}
    for at, path, note in attachments[: max(0, len(attachments) - keep)]:
        gone.setdefault(at, {})[path] = note
    return conversation.with_messages(
        {at: _without(conversation.messages[at], notes) for at, notes in gone.items()}
    )


def _attachments(conversation: Conversation) -> Iterator[_Attachment]:
    """Yield the media of the current turn, the oldest first, and what would stand for each."""
    turn = conversation.current_turn
    for index in range(turn.start, turn.end) if turn else ():
        message = conversation.messages[index]
        for medium in message.media():
            yield _Attachment(index, medium.path, _attached(medium, message))


def _attached(medium: Media, message: Message) -> dict[str, Any]:
    """Return a text part that names a medium; a cache mark still ends the same prefix."""
    part: Any = message.fields
    for step in medium.path:
        part = part[step]
    note = {"type": "text", "text": f"[Attached {medium.mime}: {_file_name(medium, part)}]"}
    if "cache_control" in part:
        note["cache_control"] = part["cache_control"]
    return note


def _without(message: Message, notes: Mapping[Path, Any]) -> Message:
    """Put notes in the media's places, and one for all behind; a part alone is then one of two."""
    named = message.with_parts(notes)
    parts = named.content if type(named.content) is list else [named.content]
    note = {"type": "text", "text": LEFT_OUT_NOTE}
    return named if note in parts else named.with_content([*parts, note])


def _file_name(medium: Media, part: dict[str, Any]) -> str:
    """Return the first usable name: what the client calls it, else the end of its address."""
    places = [part, *(value for value in part.values() if type(value) is dict)]
    told = (place[key] for key in _NAME_KEYS for place in places if type(place.get(key)) is str)
    names = map(_sanitised, (*told, _last_segment(medium)))
    return next(filter(None, names), NAMELESS)


def _last_segment(medium: Media) -> str:
    """Return the end of a remote address's path."""
    if medium.is_inline:
        return ""
    address = re.split("[?#]", medium.data, maxsplit=1)[0]
    return unquote(address.partition("://")[2].partition("/")[2].rpartition("/")[2])


def _sanitised(name: str) -> str:
    """Return a name without folders, brackets and what cannot be seen; empty if none is left."""
    last = name.replace("\\", "/").rpartition("/")[2][:_SCANNED_CHARS]
    visible = "".join(letter for letter in last if letter.isprintable() and letter not in "[]")
    short = visible.strip()[:LONGEST_NAME].rstrip()
    return short if short.strip(".") else ""
