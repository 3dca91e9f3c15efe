"""Digests of messages, by which a checkpoint recognises what it covers."""

import base64
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple, Self

from chat_proxy.chat.normal_form.normal_form import Kind, NormalMessage

SAID_BYTES: Final = 8
MEDIA_BYTES: Final = 4
HEAD_BYTES: Final = 3
HEAD_CHARS: Final = tuple(base * 2**power for power in range(8) for base in (128, 160, 192, 224))
"""The beginnings and ends of a result that are digested, to recognise it cut by a client.

Of a beginning or end up to the longest of them, at least four fifths are compared.
"""
MAX_MESSAGES: Final = 512
MAX_HEADS: Final = 128
"""The number of a checkpoint's newest results whose beginnings and ends are digested."""

CUT_NOTE_CHARS: Final = 120
MAX_CUT_WORDS: Final = 1_000
"""How many words of a text are looked at for a note that it was cut."""

_CUT_WORDS: Final = ("truncated", "omitted", "elided", "too l")
_CUT_WORD = re.compile(r"\b(?:truncated|omitted|elided|too (?:long|large))\b", re.IGNORECASE)
_CUT_NOTE = re.compile(r"(?:[\[(<]|\.{3}|\u2026)[^\[\]()<>]*\Z")
_NO_MEDIA: Final = bytes(MEDIA_BYTES)
_MEDIA_BIT: Final = 0x80
_KINDS: Final[tuple[Kind, ...]] = ("user", "assistant", "result", "other")
_RECORD = struct.Struct(f"B{SAID_BYTES}s{MEDIA_BYTES}s")
_SIZE = struct.Struct(">I")


class MessageDigest(NamedTuple):
    """What one message says, in a few bytes."""

    kind: Kind
    said: bytes
    media: bytes = _NO_MEDIA
    """The digest of its media, of notes that stand for media, or zeros without any."""

    @property
    def has_media(self) -> bool:
        """Whether the message has media."""
        return self.media[0] & _MEDIA_BIT != 0

    @property
    def is_speech(self) -> bool:
        """Whether this is a message of the user or the model, which no client shortens."""
        return self.kind in ("user", "assistant")


class ResultEnds(NamedTuple):
    """The length of a tool result, and the digests of its beginnings and ends, joined."""

    chars: int
    heads: bytes
    tails: bytes


class Digester:
    """Digest normal forms under a key, so that a stored digest tells nothing to others."""

    def __init__(self, key: bytes) -> None:
        self._key = key[:64]

    def full(self, message: NormalMessage) -> bytes:
        """Return the whole digest of what a message says, of which the first bytes are stored."""
        kind = _KINDS.index(message.kind)
        return blake2b(message.said, key=self._key, digest_size=24, person=b"%d" % kind).digest()

    def digest(self, message: NormalMessage, full: bytes) -> MessageDigest:
        """Return the stored digest of a message, given its whole one."""
        return MessageDigest(message.kind, full[:SAID_BYTES], self._media(message))

    def _media(self, message: NormalMessage) -> bytes:
        """Return the digest of a message's media; its first bit tells them from notes."""
        if not message.media:
            return _NO_MEDIA
        first, *rest = self._of(message.media, MEDIA_BYTES)
        bit = _MEDIA_BIT if message.has_media else 0
        return bytes([first & ~_MEDIA_BIT | bit, *rest])

    def ends(self, text: str) -> ResultEnds:
        """Return the digests of a result's beginnings and ends."""
        return ResultEnds(len(text), self.heads(text), self.tails(text))

    def heads(self, text: str) -> bytes:
        """Return the digests of a text's beginnings, the shortest first."""
        hashed = blake2b(key=self._key, digest_size=HEAD_BYTES)
        digests = []
        for start, end in pairwise((0, *sizes_up_to(len(text)))):
            hashed.update(text[start:end].encode("utf-8", "surrogatepass"))
            digests.append(hashed.copy().digest())
        return b"".join(digests)

    def tails(self, text: str) -> bytes:
        """Return the digests of a text's ends, the shortest first."""
        return self.heads(text[: -HEAD_CHARS[-1] - 1 : -1])

    def _of(self, content: bytes, size: int) -> bytes:
        return blake2b(content, key=self._key, digest_size=size).digest()


@dataclass(frozen=True, slots=True)
class Covered:
    """The digests of the newest messages that a checkpoint covers, and the hash of all older."""

    messages: tuple[MessageDigest, ...] = ()
    ends: Mapping[int, ResultEnds] = field(default_factory=dict)
    """The beginnings and ends of results, by their position in `messages`."""
    older: bytes = b""
    """The hash of the history before `messages`."""

    @property
    def name(self) -> bytes:
        """A short hash by which the same covered messages are known again."""
        return blake2b(b"".join(it.said for it in self.messages), digest_size=16).digest()

    def as_document(self) -> dict[str, Any]:
        """Return plain values for JSON; equal digests give equal values."""
        records = (_RECORD.pack(_KINDS.index(it.kind), it.said, it.media) for it in self.messages)
        return {
            "messages": _encoded(b"".join(records)),
            "ends": {
                str(index): _encoded(_SIZE.pack(it.chars) + it.heads + it.tails)
                for index, it in sorted(self.ends.items())
            },
            "older": self.older.hex(),
        }

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Read the output of `as_document`; raise ValueError for anything else."""
        try:
            return cls(
                tuple(_messages_of(base64.b64decode(document["messages"], validate=True))),
                {int(index): _ends_of(it) for index, it in document["ends"].items()},
                bytes.fromhex(document["older"]),
            )
        except (AttributeError, IndexError, KeyError, TypeError, struct.error) as error:
            raise ValueError("these are no digests of covered messages") from error


NOTHING: Final = Covered()


def covered_by(
    messages: Sequence[MessageDigest], texts: Mapping[int, str], older: bytes, digester: Digester
) -> Covered:
    """Return the digests of covered messages; `texts` has those of results, by their position."""
    long = [index for index in sorted(texts) if len(texts[index]) >= HEAD_CHARS[0]]
    # Of a text that its tool has cut, another run may return the same beginning.
    whole = [index for index in long[-MAX_HEADS:] if cut_at(texts[index]) is None]
    ends = {index: digester.ends(texts[index]) for index in whole}
    return Covered(tuple(messages), ends, older)


def sizes_up_to(chars: int) -> tuple[int, ...]:
    """Return the lengths of the beginnings that a text of so many characters has."""
    return tuple(size for size in HEAD_CHARS if size <= chars)


def cut_at(text: str) -> range | None:
    """Return where a text says that some of it is left out; None if it is whole."""
    lowered = text.lower()
    if not any(word in lowered for word in _CUT_WORDS):
        return None
    for word in islice(_CUT_WORD.finditer(text), MAX_CUT_WORDS):
        line = text[max(0, word.start() - CUT_NOTE_CHARS) : word.start()].rpartition("\n")[2]
        note = _CUT_NOTE.search(line)
        if note is not None:
            return range(word.start() - len(line) + note.start(), word.end())
    return None


def _messages_of(records: bytes) -> Iterable[MessageDigest]:
    for kind, said, media in _RECORD.iter_unpack(records):
        yield MessageDigest(_KINDS[kind], said, media)


def _ends_of(encoded: str) -> ResultEnds:
    content = base64.b64decode(encoded, validate=True)
    (chars,) = _SIZE.unpack_from(content)
    ends, size = content[_SIZE.size :], len(sizes_up_to(chars)) * HEAD_BYTES
    if len(ends) != 2 * size:
        raise ValueError("the digests of a result's ends are incomplete")
    return ResultEnds(chars, ends[:size], ends[size:])


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
