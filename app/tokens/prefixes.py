"""What is known of a conversation that has grown: its body begins as one that was counted.

Reading the same bytes gives the same messages, so a prefix of the body stands for the messages that
end within it. Bodies are compared block by block, by hash, and no text is kept.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

import orjson

from app.chat.request import ChatRequest
from app.tokens.counter import NOTHING_COUNTED, Fields, RequestCount, count_messages
from app.tokens.generations import Generations
from app.tokens.overheads import CountingRules
from app.tokens.token_counter import TokenCounter

BLOCK_BYTES: Final = 16 * 1024
MAX_BLOCKS: Final = 4_096


class Prefix(NamedTuple):
    """The messages that end within a body's first blocks."""

    blocks: int = 0
    counted: RequestCount = NOTHING_COUNTED
    body_bytes: int = 0
    """How long the body was from which this was learned last."""


NOTHING: Final = Prefix()


class Prefixes:
    """The prefixes of all bodies of late.

    A key is a chain of 64-bit hashes, which are salted for each process: a collision is next to
    impossible and costs a wrong count.
    """

    def __init__(self, max_blocks: int = MAX_BLOCKS) -> None:
        self._known: Generations[Prefix] = Generations(max_blocks)

    def find(self, body: bytes, rules: CountingRules) -> Prefix:
        """Return the longest prefix of the body that was counted by the same rules."""
        found = NOTHING
        for key in _keys(body, rules):
            known = self._known.recall(key)
            if known is None:
                break
            if known.blocks:
                found = known
        return found

    def learn(
        self, request: ChatRequest, found: Prefix, counter: TokenCounter, rules: CountingRules
    ) -> None:
        """Remember how a counted request begins, when it has grown by a block since it was."""
        size = len(request.body)
        if size < found.body_bytes + BLOCK_BYTES:
            return
        blocks = max(_lasting_blocks(request), found.blocks)
        if not blocks:
            return
        within = max(_messages_within(blocks, request), len(found.counted.messages))
        messages = request.fields["messages"][:within]
        counted = count_messages(messages, counter, rules, known=found.counted)
        assert counted is not None
        *path, last = islice(_keys(request.body, rules), blocks)
        for key in path:
            if self._known.recall(key) is None:
                self._known.remember(key, NOTHING)
        self._known.remember(last, Prefix(blocks, counted, size))


def _keys(body: bytes, rules: CountingRules) -> Iterator[int]:
    """Yield a key for the body's first block, for its first two blocks, and so on."""
    key = hash(rules)
    for start in range(0, len(body) - BLOCK_BYTES + 1, BLOCK_BYTES):
        key = hash((key, body[start : start + BLOCK_BYTES]))
        yield key


def _lasting_blocks(request: ChatRequest) -> int:
    """Return how many blocks will probably be the same when the conversation has grown.

    They end before the last message that can be seen in front of what stands behind them all.
    """
    try:
        behind = len(orjson.dumps(_behind_messages(request.fields)))
    except TypeError:  # lone surrogates, large numbers
        return 0
    last = request.body.rfind(b'"role"', 0, len(request.body) - behind)
    return max(0, last) // BLOCK_BYTES


def _messages_within(blocks: int, request: ChatRequest) -> int:
    """Return how many messages surely end within the first blocks, however the body is written.

    From its end backwards, everything takes at least the bytes of its shortest form.
    """
    messages = request.fields["messages"]
    place = len(request.body) - least_bytes(_behind_messages(request.fields))
    within = len(messages)
    while within and place > blocks * BLOCK_BYTES:
        within -= 1
        place -= least_bytes(messages[within])
    return within


def _behind_messages(fields: Fields) -> Fields:
    names = list(fields)
    return {name: fields[name] for name in names[names.index("messages") + 1 :]}


def least_bytes(value: object) -> int:
    """Return how many bytes JSON takes at least to write the value."""
    if isinstance(value, str):
        return 2 + (len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass")))
    if isinstance(value, dict):
        return 2 + sum(3 + len(name) + least_bytes(item) for name, item in value.items())
    if isinstance(value, list):
        return 2 + sum(map(least_bytes, value))
    return 1
