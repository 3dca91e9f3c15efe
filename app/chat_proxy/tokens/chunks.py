"""Splitting of long texts at positions where the tokenizer would split them anyway.

tiktoken panics with a BaseException on about a million blanks in a row, and a list of a million
tokens holds the GIL. Pieces of 32 K characters avoid both and add a few tokens per million.
"""

from collections.abc import Iterator

CHUNK_CHARS = 32_768
SAMPLED_ABOVE_CHARS = 4_000_000
SAMPLES = 16

_MAX_TRIES = 64


def chunks_of(text: str) -> Iterator[str]:
    """Yield the whole text in pieces of at most `CHUNK_CHARS` characters."""
    start = 0
    while start < len(text):
        end = _safe_cut(text, start)
        yield text[start:end]
        start = end


def samples_of(text: str) -> Iterator[str]:
    """Yield `SAMPLES` evenly spaced pieces of a text that is too long to tokenize completely."""
    stride = (len(text) - CHUNK_CHARS) // (SAMPLES - 1)
    for number in range(SAMPLES):
        yield text[number * stride : number * stride + CHUNK_CHARS]


def _safe_cut(text: str, start: int) -> int:
    """Return the last line break that lies between two tokens, else the maximum length."""
    limit = start + CHUNK_CHARS
    if limit >= len(text):
        return len(text)
    position = limit
    for _ in range(_MAX_TRIES):
        position = text.rfind("\n", start + 1, position)
        if position < 0:
            break
        if not text[position + 1].isspace() and text[position + 1] != "/":
            return position + 1
        if text[position - 1].isalnum():
            return position
    return limit
