"""What a prompt is made of before and after compaction, in tokens: the dashboard's picture."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Final

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.budget import Budget
from chat_proxy.proxy.session.session import SUMMARY
from chat_proxy.proxy.sizing.measure import TokenCount

PARTS: Final = ("instructions", "tools", "folded", "short", "left_out", "whole", "answer")
"""In the order of the picture. `folded`: the messages that a summary replaces, then its text."""

StagesByOrigin = Mapping[int | None, Sequence[str]]
Parts = dict[str, int]


def parts_before(
    conversation: Conversation,
    count: TokenCount,
    stages: StagesByOrigin,
    left: frozenset[int | None] | None,
    budget: Budget | None,
) -> Parts:
    """Return the tokens of the client's prompt by what becomes of them.

    `left` are the messages that are sent, by their place in the client's list; None if all are.
    """

    def part_of(index: int) -> str:
        if index < conversation.instructions:
            return "instructions"
        if left is not None and index not in left:
            return "folded" if SUMMARY in stages.get(index, ()) else "left_out"
        return "short" if stages.get(index) else "whole"

    return _summed(map(part_of, range(len(conversation))), count, budget)


def parts_after(
    conversation: Conversation, count: TokenCount, stages: StagesByOrigin, budget: Budget | None
) -> Parts:
    """Return the tokens of the prompt that was sent, by what was done to them."""

    def part_of(index: int) -> str:
        origin = conversation.origins[index]
        if index < conversation.instructions:
            return "instructions"
        if origin is None:
            return "folded"
        return "short" if stages.get(origin) else "whole"

    return _summed(map(part_of, range(len(conversation))), count, budget)


def _summed(parts: Iterator[str], count: TokenCount, budget: Budget | None) -> Parts:
    """Return the tokens of each part, and what is left of the window for the answer."""
    found = dict.fromkeys(PARTS, 0)
    for part, tokens in zip(parts, count.sizes, strict=True):
        found[part] += tokens
    found["tools"] = ceil(count.counted.tools * count.ratio)
    # Each message is rounded up on its own; the picture has the total that the row has.
    found["whole"] = max(0, found["whole"] + count.tokens - sum(found.values()))
    if budget is not None:
        found["answer"] = max(0, min(budget.reserve, budget.window - count.tokens))
    return found
