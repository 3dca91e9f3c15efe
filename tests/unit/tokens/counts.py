"""The tokens of several texts, counted as those of a request are."""

from chat_proxy.tokens.scripts import TOKENS_MASK
from chat_proxy.tokens.tiktoken_counter import TiktokenCounter


def counts(counter: TiktokenCounter, texts: list[str]) -> list[int]:
    """Return the tokens of each text, without their classes."""
    profiles = counter.profiles_within(texts, None)
    assert profiles is not None
    return [profile & TOKENS_MASK for profile in profiles]
