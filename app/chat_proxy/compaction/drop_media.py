"""Remove media from a request that its upstream refused as too long, older media first."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.media import Media, Path
from chat_proxy.chat.message import Message
from chat_proxy.compaction.ageing.apply import age, media_slots
from chat_proxy.compaction.ageing.treatments import Place, Treatments
from chat_proxy.compaction.media_notes import LEFT_OUT_NOTE, attached_note, part_of


class _Attachment(NamedTuple):
    message: int
    path: Path
    note: dict[str, Any]


def older_media(conversation: Conversation) -> Treatments:
    """Return the treatments that note all media of the client outside the current turn."""
    turn = conversation.current_turn
    current = range(turn.start, turn.end) if turn else range(0)
    places = set()
    for index, message in enumerate(conversation.messages):
        origin = conversation.origins[index]
        if origin is not None and index not in current:
            media = {medium.path for medium in message.media()}
            slots = enumerate(media_slots(message) if media else ())
            places |= {Place(origin, number) for number, slot in slots if slot.path in media}
    return Treatments(media=frozenset(places))


def without_older_media(conversation: Conversation) -> Conversation:
    """Replace all media outside the current turn by notes; the same object if there are none."""
    return age(conversation, older_media(conversation))


def without_current_media(conversation: Conversation, keep: int = 0) -> Conversation:
    """Replace the media of the current turn by their names, except the newest `keep`.

    Each message that loses media gets one note for the model. Returns the same object if there is
    nothing to replace.
    """
    attachments = list(_attachments(conversation))
    replaced: dict[int, dict[Path, Any]] = {}
    for index, path, note in attachments[: max(0, len(attachments) - keep)]:
        replaced.setdefault(index, {})[path] = note
    return conversation.with_messages(
        {index: _without(conversation.messages[index], notes) for index, notes in replaced.items()}
    )


def _attachments(conversation: Conversation) -> Iterator[_Attachment]:
    """Yield the media of the current turn, oldest first, each with its replacement note."""
    turn = conversation.current_turn
    for index in range(turn.start, turn.end) if turn else ():
        message = conversation.messages[index]
        for medium in message.media():
            yield _Attachment(index, medium.path, _attachment_note(medium, message))


def _attachment_note(medium: Media, message: Message) -> dict[str, Any]:
    """Return a text part that names a medium; `cache_control` still ends the same prefix."""
    part = part_of(medium, message.fields)
    note = {"type": "text", "text": attached_note(medium, part)}
    if "cache_control" in part:
        note["cache_control"] = part["cache_control"]
    return note


def _without(message: Message, notes: Mapping[Path, Any]) -> Message:
    """Replace media by notes and append one note for all; a single part becomes a list of two."""
    named = message.with_parts(notes)
    parts = named.content if type(named.content) is list else [named.content]
    note = {"type": "text", "text": LEFT_OUT_NOTE}
    return named if note in parts else named.with_content([*parts, note])
