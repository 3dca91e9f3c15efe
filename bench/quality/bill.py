"""What a bill is made of: text read for the first time, read again, rewritten, side-queries."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.conversation.cache import BLOCK_TOKENS
from bench.conversation.model import Call
from bench.conversation.replay import CACHED_PRICE, price

ENDING_TOKENS = BLOCK_TOKENS
"""The end of a prompt opens the answer; the next prompt goes on with the answer itself."""


@dataclass(frozen=True, slots=True)
class Bill:
    """The parts of a bill, in tokens, with what a prefix cache serves at a tenth."""

    fresh: float = 0.0
    """New text behind a prompt that the cache has."""
    again: float = 0.0
    """What the cache serves to chat requests."""
    rewritten: float = 0.0
    """What is not in the cache of a prompt that does not go on where the last one ended."""
    asides: float = 0.0
    """Side-queries: what they read and write."""
    breaks: int = 0
    """How many prompts did not go on where the last one ended."""

    @property
    def total(self) -> float:
        """The whole bill."""
        return self.fresh + self.again + self.rewritten + self.asides


def bill_of(calls: Sequence[Call]) -> Bill:
    """Return the parts of the bill of one conversation's calls."""
    fresh = again = rewritten = 0.0
    breaks = before = 0
    for call in calls:
        if call.is_side_query:
            continue
        again += CACHED_PRICE * call.cached
        if goes_on(call, before):
            fresh += call.sent - call.cached
        else:
            rewritten += call.sent - call.cached
            breaks += 1
        before = call.sent
    asides = price([call for call in calls if call.is_side_query])
    return Bill(fresh, again, rewritten, asides, breaks)


def goes_on(call: Call, before: int) -> bool:
    """Return whether a prompt begins with the last one, which had so many tokens."""
    return call.cached > before - ENDING_TOKENS - BLOCK_TOKENS
