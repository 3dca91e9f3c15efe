"""A tiktoken counter with vendored ranks: no downloads, and profiles are cached by text."""

import gzip
import hashlib
import zlib
from binascii import a2b_base64
from collections.abc import Callable, Hashable
from functools import cache
from itertools import repeat
from operator import xor
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, cast

import tiktoken

from chat_proxy.caches import GenerationCache
from chat_proxy.tokens.calibration.token_costs import CostsUnusable, TokenCosts, load_costs
from chat_proxy.tokens.chunks import CHUNK_CHARS, SAMPLED_ABOVE_CHARS, chunks_of, samples_of
from chat_proxy.tokens.scripts import TOKENS_MASK, profile_of
from chat_proxy.tokens.token_counter import rough_tokens

MAX_CACHED_TEXTS: Final = 65_536
_TokensIn = Callable[[tiktoken.Encoding, str], int]
_RANKS = Path(__file__).parent / "ranks"


class _Recipe(NamedTuple):
    """What an encoding needs besides its ranks, as in tiktoken's own definitions."""

    sha256: str
    pattern: str
    special_tokens: dict[str, int]


_RECIPES: Final = {
    "o200k_base": _Recipe(
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018},
    ),
    "cl100k_base": _Recipe(
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
        {
            "<|endoftext|>": 100_257,
            "<|fim_prefix|>": 100_258,
            "<|fim_middle|>": 100_259,
            "<|fim_suffix|>": 100_260,
            "<|endofprompt|>": 100_276,
        },
    ),
}

ENCODINGS: Final = frozenset(_RECIPES)
_BUILDING: Final = Lock()
"""Held while an encoding is built, so that counters that need the same one build it once."""


class RanksUnusable(ValueError):
    """The vendored ranks are missing, unreadable or have the wrong content."""


@cache
def load_encoding(name: str, folder: Path = _RANKS) -> tiktoken.Encoding:
    """Build the encoding from its vendored ranks, or raise RanksUnusable; takes half a second."""
    recipe = _RECIPES.get(name)
    if recipe is None:
        raise RanksUnusable(f"there are no ranks for {name!r}")
    encoding = tiktoken.Encoding(
        name,
        pat_str=recipe.pattern,
        mergeable_ranks=_ranks(folder / f"{name}.tiktoken.gz", recipe.sha256),
        special_tokens=recipe.special_tokens,
    )
    # The tokenizer has made its own copy; the Python dict would only waste another 28 MB.
    encoding._mergeable_ranks = {}  # noqa: SLF001
    return encoding


def _ranks(file: Path, sha256: str) -> dict[bytes, int]:
    try:
        content = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise RanksUnusable(f"{file.name} cannot be read") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise RanksUnusable(f"{file.name} has the wrong content")
    words = content.split()
    return dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))


class TiktokenCounter:
    """Counts texts with one encoding; before `load` counts are estimates (`is_loaded` is False).

    The cache is keyed by the 64-bit hash of a text, salted for each process and each tenant, and
    bounded by `max_texts`: a collision is practically impossible and would cost a wrong count. With
    `single_digits` each digit is a separate token, with `costs` tokens cost what was measured in
    that vocabulary. All kinds of counter share the encoding in memory, but not the cache.
    `SaltedCounter` counts for a tenant.
    """

    def __init__(
        self,
        encoding_name: str,
        max_texts: int = MAX_CACHED_TEXTS,
        *,
        single_digits: bool = False,
        costs: str = "",
    ) -> None:
        self.encoding_name = encoding_name
        self._costs = costs
        self._tokens_in: _TokensIn = _tokens_by_digit if single_digits else _tokens
        self.failure: str | None = None
        self._encoding: tiktoken.Encoding | None = None
        self._known: GenerationCache[int] = GenerationCache(max_texts)

    @property
    def is_loaded(self) -> bool:
        """Whether counts come from the tokenizer and are not estimates."""
        return self._encoding is not None

    def load(self) -> bool:
        """Build the encoding; call it in a thread. On False, `failure` has the reason."""
        if self._encoding is None:
            try:
                with _BUILDING:
                    encoding = load_encoding(self.encoding_name)
                if self._costs:
                    self._tokens_in = _costing(load_costs(self._costs))
                self._encoding = encoding
            except (RanksUnusable, CostsUnusable) as error:
                self.failure = str(error)
        return self.is_loaded

    def is_known(self, text: str, salt: int = 0) -> bool:
        """Return whether the text was counted before."""
        return self._known.recall(hash(text) ^ salt) is not None

    def count(self, text: str, salt: int = 0) -> int:
        """Return the tokens of the text; count long texts that are not known in a thread."""
        return self.profile(text, salt) & TOKENS_MASK

    def profile(self, text: str, salt: int = 0) -> int:
        """Return the tokens of the text by script class, as a profile."""
        return self._profile(text, hash(text) ^ salt)

    def _profile(self, text: str, key: int) -> int:
        if self._encoding is None:
            return rough_tokens(text)
        profile = self._known.recall(key)
        if profile is None:
            profile = profile_of(text, _count(self._encoding, text, self._tokens_in))
            self._known.remember(key, profile)
        return profile

    def profiles_within(
        self, texts: list[str], max_cold_chars: int | None, salt: int = 0
    ) -> list[int] | None:
        """Return the profile of each text; None if more than `max_cold_chars` are not cached.

        If all are cached, it costs little more than hashing.
        """
        if self._encoding is None:
            return [*map(rough_tokens, texts)]
        keys = [*map(xor, map(hash, texts), repeat(salt))]
        found = [*map(self._known.young.get, keys)]
        if None not in found:
            return cast("list[int]", found)
        cold, cold_chars = [], 0
        for index, count in enumerate(found):
            if count is not None:
                continue
            found[index] = old = self._known.recall(keys[index])
            if old is None:
                cold.append(index)
                cold_chars += len(texts[index])
        if max_cold_chars is not None and cold_chars > max_cold_chars:
            return None
        for index in cold:
            found[index] = self._profile(texts[index], keys[index])
        return cast("list[int]", found)

    def remembered(self, key: Hashable, work: Callable[[], int]) -> int:
        """Return the cached result for the key, else that of `work`; estimates are not cached."""
        if self._encoding is None:
            return work()
        count = self._known.recall(key)
        if count is None:
            count = work()
            self._known.remember(key, count)
        return count


class SaltedCounter:
    """A counter for one tenant: what others have counted is counted anew."""

    __slots__ = ("_counter", "_salt")

    def __init__(self, counter: TiktokenCounter, salt: int) -> None:
        self._counter = counter
        self._salt = salt

    @property
    def is_loaded(self) -> bool:
        """Whether counts come from the tokenizer and are not estimates."""
        return self._counter.is_loaded

    def is_known(self, text: str) -> bool:
        """Return whether the tenant's text was counted before."""
        return self._counter.is_known(text, self._salt)

    def count(self, text: str) -> int:
        """Return the tokens of the text."""
        return self.profile(text) & TOKENS_MASK

    def profile(self, text: str) -> int:
        """Return the tokens of the text by script class, as a profile."""
        return self._counter.profile(text, self._salt)

    def profiles_within(self, texts: list[str], max_cold_chars: int | None) -> list[int] | None:
        """Return the profile of each text; None if more than `max_cold_chars` are not cached."""
        return self._counter.profiles_within(texts, max_cold_chars, self._salt)

    def remembered(self, key: Hashable, work: Callable[[], int]) -> int:
        """Return the tenant's cached result for the key, else that of `work`."""
        return self._counter.remembered((self._salt, key), work)


def _tokens(encoding: tiktoken.Encoding, piece: str) -> int:
    return len(encoding.encode_ordinary(piece))


def _costing(costs: TokenCosts) -> _TokensIn:
    """Return a function that counts a text's tokens by their costs."""
    return lambda encoding, piece: costs.total(encoding.encode_ordinary(piece))


def _tokens_by_digit(encoding: tiktoken.Encoding, piece: str) -> int:
    """Count each ASCII digit as one token; the encoding itself groups up to three."""
    tokens = encoding.encode_ordinary(piece)
    return len(tokens) + sum(map(_further_digits(encoding).get, tokens, repeat(0)))


@cache
def _further_digits(encoding: tiktoken.Encoding) -> dict[int, int]:
    """Return each token of several digits with the number of digits after its first."""
    return {
        encoding.encode_single_token(f"{number:0{digits}}"): digits - 1
        for digits in (2, 3)
        for number in range(10**digits)
    }


def _count(encoding: tiktoken.Encoding, text: str, tokens_in: _TokensIn) -> int:
    if len(text) <= CHUNK_CHARS:
        return tokens_in(encoding, text)
    if len(text) <= SAMPLED_ABOVE_CHARS:
        return sum(tokens_in(encoding, chunk) for chunk in chunks_of(text))
    sampled = [(tokens_in(encoding, piece), len(piece)) for piece in samples_of(text)]
    tokens, chars = map(sum, zip(*sampled, strict=True))
    return round(len(text) * tokens / chars)
