"""A guess at the tokens of a text, for the moments without a tokenizer."""

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
