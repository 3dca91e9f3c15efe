"""What the counting of requests asks of a tokenizer."""

from collections.abc import Callable, Hashable
from typing import Protocol


class TokenCounter(Protocol):
    """Counts texts and remembers what it counted."""

    @property
    def is_loaded(self) -> bool:
        """Whether counts are real and not guessed."""
        ...

    def known(self, text: str) -> int | None:
        """Return the count if it costs nothing."""
        ...

    def count(self, text: str) -> int:
        """Return the text's tokens."""
        ...

    def counts(self, texts: list[str]) -> list[int]:
        """Return the tokens of each text."""
        ...

    def counts_within(self, texts: list[str], max_cold_chars: int | None) -> list[int] | None:
        """Return the tokens of each text, nothing if more than that is yet to be counted."""
        ...

    def remembered(self, key: Hashable, work: Callable[[], int]) -> int:
        """Return what the key's work came to before, else let it work."""
        ...


_CHARS_PER_TOKEN = 3.6
_TOKENS_PER_EXTRA_BYTE = 0.27


def rough_tokens(text: str) -> int:
    """Guess from characters and UTF-8 bytes, rather too many than too few.

    A letter beyond ASCII has one to three bytes more than an ASCII one, and costs accordingly:
    counting all characters alike takes Chinese for half of what it is.
    """
    plain = len(text) / _CHARS_PER_TOKEN
    if text.isascii():
        return int(plain + 0.999)
    extra_bytes = len(text.encode("utf-8", "surrogatepass")) - len(text)
    return int(plain + extra_bytes * _TOKENS_PER_EXTRA_BYTE + 0.999)
