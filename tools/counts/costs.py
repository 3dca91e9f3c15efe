"""Measure what tokens of o200k cost in other vocabularies; writes app/chat_proxy/tokens/costs.

Runs under the Python of `tools/counts/install.py`. Measured are the tokens one by one, and words:
frequent ones in many languages, and names from programs. No text of the simulation's held-out pool
is used.
"""

import lzma
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Final

from chat_proxy.tokens.calibration.token_costs import ENCODING, MAX_COST, file_of, packed
from chat_proxy.tokens.tiktoken_counter import load_encoding
from tools.counts.texts import code_lines
from tools.counts.vocabularies import Count, counting_in

MEASURED: Final = (
    *("qwen", "qwen3.5", "llama3", "llama4", "tekken", "deepseek", "smollm", "sentencepiece"),
    *("glm", "kimi", "gemma"),
)
_TOKENS: Final = 199_998
_SEQUENCE_STATE: Final = 2**18
_MAX_LENGTH: Final = 6
_WORDS: Final = {
    "en": 25_000, "zh": 60_000, "ja": 40_000, "ko": 30_000, "ru": 50_000, "ar": 25_000,
    "hi": 26_000, "de": 10_000, "fr": 8_000, "es": 8_000, "pt": 5_000, "it": 5_000, "fa": 6_000,
    "uk": 6_000, "pl": 3_000, "tr": 3_000, "nl": 3_000, "el": 3_000, "he": 3_000, "bn": 3_000,
    "ta": 3_000, "vi": 3_000, "id": 3_000,
}  # fmt: skip
"""How many of the most frequent words of each language are measured."""
_UNSPACED: Final = ("zh", "ja")
_CASED: Final = frozenset(_WORDS) - {"zh", "ja", "ko", "ar", "hi", "fa", "he", "bn", "ta", "ur"}
_NAMES: Final = 20_000
_PAIRED: Final = 600
_INFLECTED: Final = 2_500
_KOREAN_ENDINGS: Final = (
    *("이", "가", "은", "는", "을", "를", "의", "에", "에서", "로", "으로", "와", "과", "도", "만"),
    *(
        "한",
        "할",
        "하고",
        "하는",
        "하면",
        "하려면",
        "합니다",
        "했습니다",
        "된",
        "입니다",
        "다면",
        "까지",
    ),
)
_JAPANESE_ENDINGS: Final = (
    *("を", "が", "に", "は", "の", "で", "と", "も", "へ", "や", "から", "まで", "です", "する"),
    *("して", "した", "している", "します", "される", "ない", "ます", "ました"),
)
_CHINESE_MARKS: Final = ("\N{FULLWIDTH COMMA}", "\N{IDEOGRAPHIC FULL STOP}")
_LEAST: Final = 3
_INDENTS: Final = 33
_WORD: Final = "and"
_JOINED: Final = 8_000
"""How many English words are measured as parts of names."""
_NAME = re.compile(r"(?:[ ._(]|\b)[A-Za-z]\w{2,}")

Sequence = tuple[int, ...]


@cache
def sequences() -> list[Sequence]:
    """Return the words that have two to six tokens, without repeats."""
    encoding = load_encoding(ENCODING)
    found = dict.fromkeys(tuple(encoding.encode_ordinary(word)) for word in _words())
    found.update(
        dict.fromkeys(
            tokens for word in _pairs() if len(tokens := tuple(encoding.encode_ordinary(word))) == 2
        )
    )
    found.update(dict.fromkeys(_indents()))
    return [tokens for tokens in found if 2 <= len(tokens) <= _MAX_LENGTH]


def _words() -> Iterator[str]:
    top = import_module("wordfreq").top_n_list
    for language, number in _WORDS.items():
        for word in top(language, number):
            if language in _UNSPACED:
                yield word
                continue
            yield f" {word}"
            if language in _CASED:
                yield f" {word.capitalize()}"
    yield from (f"_{word}" for word in top("en", _JOINED))
    yield from _inflected()
    names = Counter(name for line in code_lines("tuning") for name in _NAME.findall(line))
    yield from (name for name, _ in names.most_common(_NAMES))


def _inflected() -> Iterator[str]:
    """Yield frequent words as they stand in texts, where the lists have them without endings."""
    top = import_module("wordfreq").top_n_list
    yield from (f" {word}{end}" for word in top("ko", _INFLECTED) for end in _KOREAN_ENDINGS)
    yield from (f"{word}{end}" for word in top("ja", _INFLECTED) for end in _JAPANESE_ENDINGS)
    yield from (f"{mark}{word}" for word in top("zh", _INFLECTED) for mark in _CHINESE_MARKS)


def _pairs() -> Iterator[str]:
    """Yield pairs of frequent words of the languages that have no spaces between words."""
    top = import_module("wordfreq").top_n_list
    for language in _UNSPACED:
        words = top(language, _PAIRED)
        yield from (first + second for first in words for second in words)


def _indents() -> Iterator[Sequence]:
    """Yield the tokens that end a line of a program, with the blanks before a word or a number.

    Some vocabularies never join a line break with the symbol before it, but with blanks after it.
    """
    encoding = load_encoding(ENCODING)
    tokens = Counter(encoding.encode_ordinary("\n".join(code_lines("tuning"))))
    decoded = ((token, encoding.decode_single_token_bytes(token)) for token in tokens)
    ends = [token for token, content in decoded if content.endswith(b"\n")]
    blanks = [
        tuple(encoding.encode_ordinary(" " * width + following)[:-1])
        for width in range(1, _INDENTS)
        for following in (f" {_WORD}", "1")
    ]
    yield from blanks
    yield from ((token, *each) for token in ends if tokens[token] >= _LEAST for each in blanks)


def costs(count: Count) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Return the cost of each token, and the steps that cost other than their token alone."""
    encoding = load_encoding(ENCODING)
    each = bytes(_cost(encoding.decode_single_token_bytes(n), count) or 1 for n in range(_TOKENS))
    known: dict[Sequence, int] = {}
    needed: set[Sequence] = set()
    for tokens in sequences():
        before = each[tokens[0]]
        for length in range(2, len(tokens) + 1):
            part = tokens[:length]
            if part not in known:
                alone = each[part[-1]]
                known[part] = _cost(encoding.decode_bytes(part), count) or before + alone
                if known[part] != before + alone:
                    needed.update(part[:size] for size in range(2, length + 1))
            before = known[part]
    return each, _steps(each, known, needed)


def _steps(
    each: bytes, known: dict[Sequence, int], needed: set[Sequence]
) -> list[tuple[int, int, int]]:
    """Return the steps in an order in which each state comes after the one it is reached from."""
    states: dict[Sequence, int] = {}
    steps: list[tuple[int, int, int]] = []
    for length in range(2, _MAX_LENGTH + 1):
        level = [part for part in needed if len(part) == length]
        begun = [(states[part[:-1]] if length > 2 else part[0], part) for part in level]
        for state, part in sorted(begun):
            before = known[part[:-1]] if length > 2 else each[part[0]]
            states[part] = _SEQUENCE_STATE + len(steps)
            correction = known[part] - before - each[part[-1]]
            steps.append((state, part[-1], max(-128, min(127, correction))))
    return steps


def _cost(content: bytes, count: Count) -> int | None:
    """Return the tokens of a text; None if it begins or ends within a character.

    After a text that ends a line comes a word: some vocabularies split line breaks before one.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    tokens = count(f"{text}{_WORD}") - count(_WORD) if text.endswith("\n") else count(text)
    return min(MAX_COST, max(1, tokens))


def main() -> None:
    """Write the costs of the named vocabularies, or of all."""
    for name in sys.argv[1:] or MEASURED:
        each, steps = costs(counting_in(name))
        content = lzma.compress(packed(each, steps), preset=9 | lzma.PRESET_EXTREME)
        file_of(name).parent.mkdir(exist_ok=True)
        file_of(name).write_bytes(content)
        print(f"{name}: {len(steps)} sequences, {len(content)} bytes", flush=True)


if __name__ == "__main__":
    main()
