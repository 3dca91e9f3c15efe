"""The stored result of a compaction, so that a prefix of a conversation is compacted only once."""

import json
from dataclasses import dataclass, field, replace
from typing import Any, Self

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.recognition.digests import NOTHING, Covered

VERSION = 3


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was aged and folded in the first messages of a client's list.

    A summary that is only prepared has no text yet: that is made when it is used.
    """

    until: int
    """How many of the client's messages it covers."""
    treatments: Treatments
    tokens: int
    """The prompt size when the checkpoint was made."""
    folded_until: int = 0
    """How many of the client's messages `text` replaces."""
    text: str = ""
    summary: str = ""
    """The model's summary within `text`, without its frame: the basis for a later update."""
    summarised_until: int = 0
    """How many of the client's messages the summary covers; the rest is only in notes."""
    sources: tuple[str, ...] = ()
    """The names of the places where the folded messages are, oldest first."""
    names_places: bool = False
    """Whether aged results name the place of their whole text."""
    covered: Covered = field(default=NOTHING, compare=False)
    """The digests of the messages that it covers, to recognise them again: no decision."""
    missing: int = 0
    """How many messages the client has dropped since they were folded: `text` alone has them."""

    def shifted(self, offset: int) -> Self:
        """Return the checkpoint for a list in which the same messages stand elsewhere."""
        if not offset:
            return self
        return replace(
            self,
            until=self.until + offset,
            treatments=self.treatments.shifted(offset),
            folded_until=max(0, self.folded_until + offset) if self.folded_until else 0,
            summarised_until=max(0, self.summarised_until + offset) if self.summarised_until else 0,
        )

    def to_bytes(self) -> bytes:
        """Return the stored form; equal checkpoints give equal bytes."""
        document = {
            "version": VERSION,
            "until": self.until,
            "treatments": self.treatments.as_document(),
            "tokens": self.tokens,
            "folded_until": self.folded_until,
            "text": self.text,
            "summary": self.summary,
            "summarised_until": self.summarised_until,
            "sources": self.sources,
            "names_places": self.names_places,
            "missing": self.missing,
            "covered": self.covered.as_document(),
        }
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, stored: bytes) -> Self:
        """Read the stored form; raise ValueError if it is invalid or of another version."""
        document = _document(stored)
        checkpoint = cls(
            until=_count(document, "until"),
            treatments=Treatments.from_document(document.get("treatments")),
            tokens=_count(document, "tokens"),
            folded_until=_count(document, "folded_until"),
            text=_text(document, "text"),
            summary=_text(document, "summary"),
            summarised_until=_count(document, "summarised_until"),
            sources=_texts(document, "sources"),
            names_places=document.get("names_places") is True,
            missing=_count({"missing": 0, **document}, "missing"),
            covered=Covered.from_document(document.get("covered")),
        )
        if checkpoint.folded_until > checkpoint.until:
            raise ValueError("a checkpoint folds more messages than it covers")
        if checkpoint.folded_until and not (checkpoint.text or checkpoint.summary):
            raise ValueError("a checkpoint folds messages but has no text")
        return checkpoint


def index_of(conversation: Conversation, origin_end: int) -> int:
    """Return the index of the first client message from `origin_end` on, or the length if none."""
    for index, origin in enumerate(conversation.origins):
        if origin is not None and origin >= origin_end:
            return index
    return len(conversation)


def _document(stored: bytes) -> dict[str, Any]:
    try:
        document = json.loads(stored)
    except RecursionError as error:
        raise ValueError("a checkpoint is nested too deeply") from error
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
        raise ValueError(f"a checkpoint's {key} is not a string")
    return value


def _texts(document: dict[str, Any], key: str) -> tuple[str, ...]:
    value = document.get(key)
    if type(value) is not list or any(type(item) is not str for item in value):
        raise ValueError(f"a checkpoint's {key} is not a list of strings")
    return tuple(value)
