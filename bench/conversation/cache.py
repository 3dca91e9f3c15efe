"""What an upstream's prefix cache would have served: whole blocks of tokens that it saw before."""

from array import array
from collections.abc import Sequence

BLOCK_TOKENS = 16
_TYPECODE = "I"


class PrefixCache:
    """Remembers the prompts of one conversation, without end and without forgetting.

    A prompt that a later one begins with is kept only as a part of that one.
    """

    def __init__(self) -> None:
        self._prompts: list[bytes] = []

    def take(self, tokens: Sequence[int]) -> int:
        """Return how many of the prompt's tokens are served from the cache, and remember it.

        The last token is always computed: its output is what the answer begins with.
        """
        prompt = array(_TYPECODE, tokens).tobytes()
        size = len(prompt) // max(1, len(tokens))
        known = max((common_bytes(prompt, old) for old in self._prompts), default=0)
        self._prompts = [old for old in self._prompts if not prompt.startswith(old)]
        self._prompts.append(prompt)
        return min(known // max(1, size), len(tokens) - 1) // BLOCK_TOKENS * BLOCK_TOKENS


def common_bytes(one: bytes, other: bytes) -> int:
    """Return how many bytes two strings have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
