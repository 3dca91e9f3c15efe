"""What tokens of o200k cost in the vocabulary of another model family.

Each token has a cost, and so have frequent sequences of tokens within a word, which another
vocabulary may have as one token or may split elsewhere. The costs were measured with the families'
own tokenizers on lists of frequent words in forty languages (`tools/counts/costs.py`): a text that
is counted with them is within a few per cent of its real tokens, in every script.
"""

import lzma
import re
from array import array
from functools import cache
from itertools import accumulate
from pathlib import Path
from sys import byteorder
from typing import Final, NamedTuple

ENCODING: Final = "o200k_base"
"""The encoding whose tokens have costs."""

_FOLDER: Final = Path(__file__).parent.parent / "costs"
_TOKEN_BITS: Final = 18
_TOKENS: Final = 200_064
_FIRST_SEQUENCE: Final = 2**_TOKEN_BITS
_BIAS: Final = 128
_GOES_ON: Final = 0x80
_COSTS: Final = bytes(mark & ~_GOES_ON for mark in range(256))
_CONTINUATIONS = re.compile(rb"[\x80-\xff]+")
MAX_COST: Final = 127


class CostsUnusable(ValueError):
    """The file with a vocabulary's costs is missing or damaged."""


class TokenCosts(NamedTuple):
    """The costs of tokens and of sequences of tokens in one vocabulary.

    A sequence is a state that is reached from a shorter one, or from a token, by one more token.
    """

    each: bytes
    """The cost of each token alone, with `_GOES_ON` if it continues a sequence."""
    steps: dict[int, int]
    """By state and next token: the new state, and by how much the cost grows."""

    def total(self, tokens: list[int]) -> int:
        """Return what a text costs that has these tokens.

        Most tokens continue no sequence; only the others are looked at one by one.
        """
        marks = bytes(map(self.each.__getitem__, tokens))
        total = sum(marks.translate(_COSTS))
        step_of = self.steps.get
        for run in _CONTINUATIONS.finditer(marks, 1):
            start, end = run.span()
            state = tokens[start - 1]
            for token in tokens[start:end]:
                step = step_of(state << _TOKEN_BITS | token)
                if step is None:
                    state = token
                else:
                    total += (step & 0xFF) - _BIAS
                    state = step >> 8
        return total


def file_of(vocabulary: str) -> Path:
    """Return the file with a vocabulary's costs."""
    return _FOLDER / f"{vocabulary}.xz"


VOCABULARIES: Final = frozenset(path.stem for path in _FOLDER.glob("*.xz"))
"""The vocabularies whose costs are known."""


@cache
def load_costs(vocabulary: str) -> TokenCosts:
    """Return a vocabulary's costs, or raise CostsUnusable; takes about 50 ms."""
    try:
        return unpacked(lzma.decompress(file_of(vocabulary).read_bytes()))
    except (OSError, EOFError, lzma.LZMAError, ValueError) as error:
        raise CostsUnusable(f"the costs of {vocabulary} cannot be read") from error


def packed(each: bytes, steps: list[tuple[int, int, int]]) -> bytes:
    """Return costs as they are stored; a step is a state, the next token and a correction.

    The correction is by how much the longer sequence costs more than the shorter one and the
    token. The n-th step leads to the n-th state after those of the tokens.
    """
    states = array("I", [state for state, _, _ in steps])
    for at in range(len(states) - 1, 0, -1):
        states[at] -= states[at - 1]
    tokens = array("I", [token for _, token, _ in steps])
    if byteorder == "big":
        states.byteswap()
        tokens.byteswap()
    added = bytes(cost + _BIAS for _, _, cost in steps)
    return each.ljust(_TOKENS, b"\1") + states.tobytes() + tokens.tobytes() + added


def unpacked(content: bytes) -> TokenCosts:
    """Return the costs that `packed` wrote, or raise ValueError."""
    number, rest = divmod(len(content) - _TOKENS, 9)
    if number < 0 or rest:
        raise ValueError("not the costs of a vocabulary")
    each, content = bytearray(content[:_TOKENS]), content[_TOKENS:]
    states, tokens = array("I"), array("I")
    states.frombytes(content[: 4 * number])
    tokens.frombytes(content[4 * number : 8 * number])
    if byteorder == "big":
        states.byteswap()
        tokens.byteswap()
    added = content[8 * number :]
    for token in set(tokens):
        each[token] |= _GOES_ON
    steps = {
        state << _TOKEN_BITS | token: _FIRST_SEQUENCE + at << 8 | cost
        for at, (state, token, cost) in enumerate(
            zip(accumulate(states), tokens, added, strict=True)
        )
    }
    return TokenCosts(bytes(each), steps)
