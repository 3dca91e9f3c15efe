"""What each image of a request costs, and what would be done to it."""

from typing import Any

from chat_proxy.chat.media import Media
from chat_proxy.chat.message import Message
from chat_proxy.compaction.ageing.apply import media_slots
from chat_proxy.proxy.session.request import CompactionResult
from chat_proxy.proxy.session.session import SUMMARY
from chat_proxy.proxy.sizing.measure import Measured
from chat_proxy.tokens.images.media import media_tokens
from chat_proxy.tokens.images.size import image_size


def images_of(measured: Measured, outcome: CompactionResult) -> list[dict[str, Any]]:
    """Return every image with its family, size and tokens, and what would be done to it."""
    after = dict(zip(outcome.conversation.origins, outcome.conversation.messages, strict=True))
    gone = "folded" if SUMMARY in outcome.stages else "dropped"
    documents = []
    for index, message in enumerate(measured.conversation.messages):
        if type(message.content) not in (list, dict):
            continue
        for number, medium in enumerate(message.media()):
            if medium.kind == "image":
                left = _left_of(message, after.get(index), medium, measured, gone)
                described = _described(medium, measured)
                documents.append({"message": index, "number": number, **described, "after": left})
    return documents


def _described(medium: Media, measured: Measured) -> dict[str, Any]:
    return {
        "mime": medium.mime,
        "family": measured.rules.image_family,
        "detail": medium.detail,
        "size": _size_of(medium),
        "tokens": media_tokens(medium, measured.rules),
    }


def _left_of(
    message: Message, after: Message | None, medium: Media, measured: Measured, gone: str
) -> dict[str, Any]:
    """Return what is left of an image: all, a smaller one, a note, or nothing."""
    if after is None:
        return {"change": gone, "size": None, "tokens": 0}
    if after.fields is message.fields:
        return _shown("kept", medium, measured)
    paths = [slot.path for slot in media_slots(message)]
    slots = media_slots(after)
    path = slots[paths.index(medium.path)].path if len(slots) == len(paths) else medium.path
    for now in after.media():
        if now.path == path:
            return _shown("kept" if now.data == medium.data else "scaled", now, measured)
    return {"change": "noted", "size": None, "tokens": 0}


def _shown(change: str, medium: Media, measured: Measured) -> dict[str, Any]:
    tokens = media_tokens(medium, measured.rules)
    return {"change": change, "size": _size_of(medium), "tokens": tokens}


def _size_of(medium: Media) -> list[int] | None:
    size = image_size(medium.data) if medium.is_inline else None
    return list(size) if size else None
