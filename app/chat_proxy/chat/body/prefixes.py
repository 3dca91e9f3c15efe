"""Cache of known body prefixes, so that only the new end of a grown conversation is parsed.

A client sends its whole history with every request, so its body begins with the same bytes as the
previous one, and the same bytes parse to the same messages. Prefixes are compared block by block,
by hash; no message is kept.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson

from chat_proxy.caches import GenerationCache
from chat_proxy.chat.body.structure import Structure, structure_of
from chat_proxy.chat.message_features import MessageFeatures, is_list_of_objects, shape_of

Fields = dict[str, Any]

BLOCK_BYTES: Final = 16 * 1024
MAX_BLOCKS: Final = 16_384
MEAN_MESSAGE_BYTES: Final = 8 * 1024
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
MAX_OPTION_BYTES: Final = 1_024
INSIDE: Final = b'{"messages":[0,'
"""Puts a parser in the state in which every prefix ends: inside the messages, after a comma."""

_MESSAGE_STARTS: Final = (b'{"role"', b'{"content"')
_MAX_TRIES: Final = 2


class BodyPrefix(NamedTuple):
    """The first bytes of a body: complete messages and the comma after them."""

    key: int = 0
    """Identifies the sequence of blocks in which the prefix ends."""
    end: int = 0
    """The offset at which the next message begins."""
    messages: int = 0
    options: Fields = {}  # noqa: RUF012
    """The fields before the messages."""
    shape: MessageFeatures = MessageFeatures()
    body_bytes: int = 0
    """The length of the body from which this prefix was last learned."""
    structure: Structure = Structure()
    """What its messages consist of."""


NOTHING: Final = BodyPrefix()


class BodyPrefixes:
    """The prefixes of recent bodies, bounded by `max_blocks`.

    The key is a chain of 64-bit hashes over the blocks, salted for each process, so a collision is
    practically impossible. It begins with the salt of a tenant: an entry is found only by a body of
    the same tenant that begins with the same bytes. An entry holds positions, message features and
    the options in front of the messages, but no message.
    """

    def __init__(self, max_blocks: int = MAX_BLOCKS) -> None:
        self._known: GenerationCache[BodyPrefix] = GenerationCache(max_blocks)

    def find(self, body: bytes, salt: int = 0) -> BodyPrefix:
        """Return the longest known prefix of a tenant's body."""
        if len(body) < BLOCK_BYTES:
            return NOTHING
        found = NOTHING
        for key in _keys(body, salt) if len(body) <= MAX_BODY_BYTES else ():
            known = self._known.recall(key)
            if known is None:
                break
            if known.messages:
                found = known
        return found

    def learn(
        self, body: bytes, fields: Fields, prefix: BodyPrefix = NOTHING, salt: int = 0
    ) -> BodyPrefix:
        """Store a longer prefix if the body has grown by a block; return the longest known one.

        `fields` are those parsed after the known prefix, or all fields without one.
        """
        if len(body) < BLOCK_BYTES or not _may_grow(body, fields, prefix):
            return prefix
        blocks = _stable_blocks(body, fields)
        longer = _longer_prefix(body, fields, prefix, blocks * BLOCK_BYTES)
        if longer is None:
            if prefix.messages:
                self._known.remember(prefix.key, prefix._replace(body_bytes=len(body)))
            return prefix
        *path, last = islice(_keys(body, salt), blocks)
        for key in path:
            if self._known.recall(key) is None:
                self._known.remember(key, NOTHING)
        longer = longer._replace(key=last)
        self._known.remember(last, longer)
        return longer


def _keys(body: bytes, salt: int) -> Iterator[int]:
    """Yield the key of the body's first block, then of its first two blocks, and so on."""
    key = salt
    for start in range(0, len(body) - BLOCK_BYTES + 1, BLOCK_BYTES):
        key = hash((key, body[start : start + BLOCK_BYTES]))
        yield key


def _may_grow(body: bytes, fields: Fields, prefix: BodyPrefix) -> bool:
    """Return whether learning pays: the body has grown by a block and its messages are short.

    Parsing a long message costs little compared with hashing it, and an image even less.
    """
    size = len(body)
    if not prefix.body_bytes + BLOCK_BYTES <= size <= MAX_BODY_BYTES:
        return False
    messages = fields.get("messages")
    if type(messages) is not list:
        return False
    return size <= (prefix.messages + len(messages)) * MEAN_MESSAGE_BYTES


def _stable_blocks(body: bytes, fields: Fields) -> int:
    """Return how many blocks will probably be unchanged in the next request.

    They end before the start of the last message, which is searched for in front of the fields
    that follow the messages.
    """
    bytes_after = _size({name: fields[name] for name in _names_after(fields)})
    return max(0, _last_message_start(body, 0, max(0, len(body) - bytes_after))) // BLOCK_BYTES


def _longer_prefix(body: bytes, fields: Fields, prefix: BodyPrefix, end: int) -> BodyPrefix | None:
    """Return the longest prefix up to an offset, or None if it is not longer than the known one."""
    if not prefix.messages and _size(_options_before(fields)) > MAX_OPTION_BYTES:
        return None
    for _ in range(_MAX_TRIES):
        end = _last_message_start(body, prefix.end, end)
        if end <= prefix.end:
            return None
        parsed = _parse_until(body, prefix, end)
        count = _messages_before(parsed.pop("messages", None), fields["messages"])
        if count:
            options = prefix.options if prefix.messages else parsed
            return _new_prefix(body, end, fields["messages"][:count], options, prefix)
    return None


def _new_prefix(
    body: bytes, end: int, messages: list[Any], options: Fields, prefix: BodyPrefix
) -> BodyPrefix | None:
    more = messages[1:] if prefix.messages else messages
    if not more or not is_list_of_objects(more) or _size(options) > MAX_OPTION_BYTES:
        return None
    shape = prefix.shape.combined_with(shape_of(more))
    structure = prefix.structure.combined_with(structure_of(more, body[prefix.end : end]))
    return BodyPrefix(0, end, prefix.messages + len(more), options, shape, len(body), structure)


def _last_message_start(body: bytes, start: int, end: int) -> int:
    """Return the offset of the last object that looks like a message; negative if there is none."""
    return max(body.rfind(mark, start, end) for mark in _MESSAGE_STARTS)


def _parse_until(body: bytes, prefix: BodyPrefix, offset: int) -> Fields:
    """Parse what follows a prefix up to an offset; a 0 ends the list that is open there."""
    text = INSIDE + body[prefix.end : offset] if prefix.messages else body[:offset]
    try:
        parsed: Fields = orjson.loads(text + b"0]}")
    except orjson.JSONDecodeError:
        return {}
    return parsed


def _messages_before(parsed: object, messages: list[Any]) -> int:
    """Return how many messages were parsed up to an offset; 0 if it lies in another list.

    Whether a parser is inside the messages at an offset depends only on the bytes before it. The
    appended 0 takes the place of a message. If the offset lies in another list, all messages come
    before it, and a 0 among them is the client's own.
    """
    if type(parsed) is not list or not parsed or parsed[-1] != 0:
        return 0
    count = len(parsed) - 1
    return count if type(messages[count]) is dict else 0


def _size(options: Fields) -> int:
    """Return the serialised size of the options; the maximum if they are nested too deep."""
    try:
        return len(orjson.dumps(options))
    except orjson.JSONEncodeError:
        return MAX_BODY_BYTES


def _options_before(fields: Fields) -> Fields:
    names = list(fields)
    return {name: fields[name] for name in names[: names.index("messages")]}


def _names_after(fields: Fields) -> Sequence[str]:
    names = list(fields)
    return names[names.index("messages") + 1 :]
