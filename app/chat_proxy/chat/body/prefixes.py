"""How bodies began of late: a conversation that has grown is read from where it was read before.

A client sends its whole history with every request, so that its body begins as the one before did.
The same bytes have the same meaning. They are compared block by block, by hash, and no message is
kept.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson

from chat_proxy.caches import GenerationCache
from chat_proxy.chat.message_features import MessageFeatures, is_list_of_objects, shape_of

Fields = dict[str, Any]

BLOCK_BYTES: Final = 16 * 1024
MAX_BLOCKS: Final = 4_096
MEAN_MESSAGE_BYTES: Final = 8 * 1024
MAX_BODY_BYTES: Final = 1024 * 1024
MAX_OPTION_BYTES: Final = 1_024
INSIDE: Final = b'{"messages":[0,'
"""Brings a parser where every beginning ends: inside the messages, behind a comma."""

_MESSAGE_STARTS: Final = (b'{"role"', b'{"content"')
_TRIES: Final = 2


class Beginning(NamedTuple):
    """The first bytes of a body: whole messages, and the comma behind them."""

    key: int = 0
    """Names the blocks in which it ends."""
    end: int = 0
    """Where the next message begins."""
    messages: int = 0
    options: Fields = {}  # noqa: RUF012
    """What stands before the messages."""
    shape: MessageFeatures = MessageFeatures()
    body_bytes: int = 0
    """How long the body was from which this was learned last."""


NOTHING: Final = Beginning()


class BodyPrefixes:
    """The beginnings of all bodies of late.

    A key is a chain of 64-bit hashes, which are salted for each process: a collision is next to
    impossible.
    """

    def __init__(self, max_blocks: int = MAX_BLOCKS) -> None:
        self._known: GenerationCache[Beginning] = GenerationCache(max_blocks)

    def find(self, body: bytes) -> Beginning:
        """Return the longest beginning of the body that is known."""
        if len(body) < BLOCK_BYTES:
            return NOTHING
        found = NOTHING
        for key in _keys(body) if len(body) <= MAX_BODY_BYTES else ():
            known = self._known.recall(key)
            if known is None:
                break
            if known.messages:
                found = known
        return found

    def learn(self, body: bytes, fields: Fields, begun: Beginning = NOTHING) -> Beginning:
        """Remember how a body begins when it has grown by a block; return how, as far as known.

        `fields` are what stands behind the beginning that is known, or all.
        """
        if len(body) < BLOCK_BYTES or not _may_grow(body, fields, begun):
            return begun
        blocks = _lasting_blocks(body, fields)
        longer = _longer(body, fields, begun, blocks * BLOCK_BYTES)
        if longer is None:
            if begun.messages:
                self._known.remember(begun.key, begun._replace(body_bytes=len(body)))
            return begun
        *path, last = islice(_keys(body), blocks)
        for key in path:
            if self._known.recall(key) is None:
                self._known.remember(key, NOTHING)
        longer = longer._replace(key=last)
        self._known.remember(last, longer)
        return longer


def _keys(body: bytes) -> Iterator[int]:
    """Yield a key for the body's first block, for its first two blocks, and so on."""
    key = 0
    for start in range(0, len(body) - BLOCK_BYTES + 1, BLOCK_BYTES):
        key = hash((key, body[start : start + BLOCK_BYTES]))
        yield key


def _may_grow(body: bytes, fields: Fields, begun: Beginning) -> bool:
    """Tell whether it is worth a look: the body is new by a block, and its messages are short.

    A message that is long costs little beside its hash, and a picture not even that.
    """
    size = len(body)
    if not begun.body_bytes + BLOCK_BYTES <= size <= MAX_BODY_BYTES:
        return False
    messages = fields.get("messages")
    if type(messages) is not list:
        return False
    return size <= (begun.messages + len(messages)) * MEAN_MESSAGE_BYTES


def _lasting_blocks(body: bytes, fields: Fields) -> int:
    """Return how many blocks will probably be the same when the conversation has grown.

    They end before the last message that can be seen in front of what stands behind them all.
    """
    behind = _size({name: fields[name] for name in _names_behind(fields)})
    return max(0, _last_start(body, 0, max(0, len(body) - behind))) // BLOCK_BYTES


def _longer(body: bytes, fields: Fields, begun: Beginning, end: int) -> Beginning | None:
    """Return the longest beginning up to a place, if it is longer than the one that is known."""
    if not begun.messages and _size(_options_before(fields)) > MAX_OPTION_BYTES:
        return None
    for _ in range(_TRIES):
        end = _last_start(body, begun.end, end)
        if end <= begun.end:
            return None
        read = _read_until(body, begun, end)
        count = _messages_before(read.pop("messages", None), fields["messages"])
        if count:
            options = begun.options if begun.messages else read
            return _beginning(end, fields["messages"][:count], options, begun, len(body))
    return None


def _beginning(
    end: int, messages: list[Any], options: Fields, begun: Beginning, body_bytes: int
) -> Beginning | None:
    more = messages[1:] if begun.messages else messages
    if not more or not is_list_of_objects(more) or _size(options) > MAX_OPTION_BYTES:
        return None
    shape = begun.shape.with_more(shape_of(more))
    return Beginning(0, end, begun.messages + len(more), options, shape, body_bytes)


def _last_start(body: bytes, start: int, end: int) -> int:
    """Return where the last object begins that looks like a message; negative if none does."""
    return max(body.rfind(mark, start, end) for mark in _MESSAGE_STARTS)


def _read_until(body: bytes, begun: Beginning, place: int) -> Fields:
    """Read what stands behind a beginning up to a place, if a list goes on there: with a 0."""
    start = INSIDE + body[begun.end : place] if begun.messages else body[:place]
    try:
        read: Fields = orjson.loads(start + b"0]}")
    except orjson.JSONDecodeError:
        return {}
    return read


def _messages_before(read: object, messages: list[Any]) -> int:
    """Return how many messages were read up to a place, none if it is in another list.

    A parser that is inside the messages there is so whatever comes behind. The 0 that it was given
    stands for a message; in another list all messages are behind it, and a 0 is the client's own.
    """
    if type(read) is not list or not read or read[-1] != 0:
        return 0
    count = len(read) - 1
    return count if type(messages[count]) is dict else 0


def _size(options: Fields) -> int:
    """Return how many bytes the options take; more than any if they are too deep to be written."""
    try:
        return len(orjson.dumps(options))
    except orjson.JSONEncodeError:
        return MAX_BODY_BYTES


def _options_before(fields: Fields) -> Fields:
    names = list(fields)
    return {name: fields[name] for name in names[: names.index("messages")]}


def _names_behind(fields: Fields) -> Sequence[str]:
    names = list(fields)
    return names[names.index("messages") + 1 :]
