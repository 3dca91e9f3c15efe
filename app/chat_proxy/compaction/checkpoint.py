"""What a compaction leaves behind for a prefix of a conversation, so that it is done only once."""

import json
from dataclasses import dataclass
from typing import Any, Self

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.clearing import Clearing

VERSION = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was cleared and folded of the first messages of a client's list."""

    until: int
    """How many of the client's messages it speaks about."""
    clearing: Clearing
    tokens: int
    """The size of the prompt when it was made."""
    folded_until: int = 0
    """How many of the client's messages `text` replaces."""
    text: str = ""
    summary: str = ""
    """The bare summary within the text, to be brought up to date later."""

    def to_bytes(self) -> bytes:
        """Return the form that is stored: the same bytes for the same checkpoint."""
        document = {
            "version": VERSION,
            "until": self.until,
            "clearing": self.clearing.as_lists(),
            "tokens": self.tokens,
            "folded_until": self.folded_until,
            "text": self.text,
            "summary": self.summary,
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, stored: bytes) -> Self:
        """Read the stored form, or raise ValueError if it is not one of this version."""
        document = _document(stored)
        checkpoint = cls(
            until=_count(document, "until"),
            clearing=Clearing.from_lists(document.get("clearing")),
            tokens=_count(document, "tokens"),
            folded_until=_count(document, "folded_until"),
            text=_text(document, "text"),
            summary=_text(document, "summary"),
        )
        if checkpoint.folded_until > checkpoint.until:
            raise ValueError("a checkpoint folds more messages than it speaks about")
        if checkpoint.folded_until and not checkpoint.text:
            raise ValueError("a checkpoint folds messages into nothing")
        return checkpoint


def index_of(conversation: Conversation, origin_end: int) -> int:
    """Return where the client's messages from `origin_end` on begin in what is left of them."""
    for index, origin in enumerate(conversation.origins):
        if origin is not None and origin >= origin_end:
            return index
    return len(conversation)


def _document(stored: bytes) -> dict[str, Any]:
    try:
        document = json.loads(stored)
    except RecursionError as error:
        raise ValueError("a checkpoint is nested too deep") from error
    if type(document) is not dict or document.get("version") != VERSION:
        raise ValueError("not a checkpoint of this version")
    return document


def _count(document: dict[str, Any], key: str) -> int:
    value = document.get(key)
    if type(value) is not int or value < 0:
        raise ValueError(f"a checkpoint's {key} is not a count")
    return value


def _text(document: dict[str, Any], key: str) -> str:
    value = document.get(key)
    if type(value) is not str:
        raise ValueError(f"a checkpoint's {key} is not a text")
    return value
