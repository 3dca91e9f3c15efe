"""The media of a conversation as the planner sees them, and which of them may give way."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chat_proxy.chat.media import Media
from chat_proxy.compaction.ageing.apply import media_slots
from chat_proxy.compaction.ageing.policy import AgeingPolicy
from chat_proxy.compaction.ageing.treatments import Place
from chat_proxy.compaction.media_notes import (
    LEFT_OUT_NOTE,
    attached_note,
    details_of,
    media_note,
    part_of,
    said_after,
)
from chat_proxy.compaction.planner.view import View

VISUAL_KINDS = ("image", "video")


class PlacedMedium(NamedTuple):
    """One medium of the client's messages, its place and its tokens."""

    message: int
    """The index of its message."""
    place: Place
    medium: Media
    is_result: bool
    """Whether it came with a tool result."""
    tokens: int
    number: int
    """Its number among the media of its message, without the notes of others."""


def placed_media(view: View, indexes: Sequence[int]) -> Iterator[PlacedMedium]:
    """Yield each medium of the client's messages at these indexes, newest first."""
    conversation = view.conversation
    for index in reversed(indexes):
        message, origin = conversation.messages[index], conversation.origins[index]
        if origin is None or type(message.content) not in (list, dict):
            continue
        media = tuple(message.media())
        numbers = {slot.path: number for number, slot in enumerate(media_slots(message))}
        sizes = view.media_sizes(index) if media else ()
        is_result = message.is_tool_result or index in conversation.attachments
        for number, (medium, tokens) in reversed(list(enumerate(zip(media, sizes, strict=True)))):
            place = Place(origin, numbers[medium.path])
            yield PlacedMedium(index, place, medium, is_result, tokens, number)


def without_newest(media: Sequence[PlacedMedium], policy: AgeingPolicy) -> list[PlacedMedium]:
    """Return the media, given newest first, beyond those that stay by their number, oldest first.

    Each kind, from the user or from tools, has its own number, and so have images as such.
    """
    kept = {True: policy.keep_tool_media, False: policy.keep_user_media}
    images = policy.keep_images
    beyond = []
    for it in media:
        kept[it.is_result] -= 1
        is_image = it.medium.kind in VISUAL_KINDS
        images -= is_image
        if kept[it.is_result] < 0 and not (is_image and images >= 0):
            beyond.append(it)
    return beyond[::-1]


def note_tokens(view: View, it: PlacedMedium) -> int:
    """Return the tokens of the note that would replace a medium."""
    messages = view.conversation.messages
    part = part_of(it.medium, messages[it.message].fields)
    details = details_of(it.medium, part, f"#{it.place.origin}", said_after(messages, it.message))
    return view.count(media_note(it.medium.mime, details))


def name_tokens(view: View, it: PlacedMedium, *, is_first: bool) -> int:
    """Return the tokens of a medium's name; the first of a message brings a sentence with it."""
    part = part_of(it.medium, view.conversation.messages[it.message].fields)
    name = view.count(attached_note(it.medium, part))
    return name + (view.count(LEFT_OUT_NOTE) if is_first else 0)
