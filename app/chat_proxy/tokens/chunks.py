"""Long texts are cut where the tokenizer would cut them anyway, so that no piece can hurt it.

tiktoken panics with a BaseException on about a million blanks in a row, and a list of a million
tokens holds the GIL; pieces of 32 K characters do neither and cost a few tokens per million.
"""

from collections.abc import Iterator

CHUNK_CHARS = 32_768
SAMPLED_ABOVE_CHARS = 4_000_000
SAMPLES = 16

_TRIES = 64


def chunks_of(text: str) -> Iterator[str]:
    """Yield the whole text in pieces of at most `CHUNK_CHARS`."""
    start = 0
    while start < len(text):
        end = _safe_cut(text, start)
        yield text[start:end]
        start = end


def samples_of(text: str) -> Iterator[str]:
    """Yield `SAMPLES` evenly spaced pieces of a text that is too long to be read whole."""
    stride = (len(text) - CHUNK_CHARS) // (SAMPLES - 1)
    for number in range(SAMPLES):
        yield text[number * stride : number * stride + CHUNK_CHARS]


def _safe_cut(text: str, start: int) -> int:
    """Find the last line break whose neighbours belong to different tokens; else cut hard."""
    limit = start + CHUNK_CHARS
    if limit >= len(text):
        return len(text)
    at = limit
    for _ in range(_TRIES):
        at = text.rfind("\n", start + 1, at)
        if at < 0:
            break
        if not text[at + 1].isspace() and text[at + 1] != "/":
            return at + 1
        if text[at - 1].isalnum():
            return at
    return limit
