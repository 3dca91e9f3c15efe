"""The token counter interface, and a rough estimate without a tokenizer."""

from collections.abc import Callable, Hashable
from typing import Protocol


class TokenCounter(Protocol):
    """Counts the tokens of texts and caches the counts."""

    @property
    def is_loaded(self) -> bool:
        """Whether counts come from a tokenizer and are not estimates."""
        ...

    def is_known(self, text: str) -> bool:
        """Return whether the text's count is cached."""
        ...

    def count(self, text: str) -> int:
        """Return the tokens of the text."""
        ...

    def profile(self, text: str) -> int:
        """Return the tokens of the text by script class, as a profile (`tokens/scripts.py`)."""
        ...

    def profiles_within(self, texts: list[str], max_cold_chars: int | None) -> list[int] | None:
        """Return the profile of each text; None if more than `max_cold_chars` are not cached."""
        ...

    def remembered(self, key: Hashable, work: Callable[[], int]) -> int:
        """Return the cached result for the key, else the result of `work`."""
        ...


_CHARS_PER_TOKEN = 3.6
_TOKENS_PER_EXTRA_BYTE = 0.27


def rough_tokens(text: str) -> int:
    """Estimate the tokens from characters and UTF-8 bytes, preferring too many to too few.

    A non-ASCII character has one to three more bytes than an ASCII one and costs accordingly:
    counting all characters equally estimates Chinese at half of its real tokens.
    """
    plain = len(text) / _CHARS_PER_TOKEN
    if text.isascii():
        return int(plain + 0.999)
    extra_bytes = len(text.encode("utf-8", "surrogatepass")) - len(text)
    return int(plain + extra_bytes * _TOKENS_PER_EXTRA_BYTE + 0.999)
