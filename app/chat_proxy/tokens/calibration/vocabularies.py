"""What scripts cost in the vocabularies of model families, in tokens per token of o200k.

Measured on texts of 26 languages and kinds with each family's own tokenizer; GLM and Kimi are
rounded from published figures, Gemma and Yi are guesses. Families that split numbers into digits
are counted so.
"""

import re
from functools import lru_cache
from typing import Final

from chat_proxy.tokens.model_names import plain_name
from chat_proxy.tokens.scripts import Scripts

UNKNOWN: Final = ""
EXACT: Final = "exact"
"""The vocabulary of the encoding itself, as OpenAI's models have."""
MEASURED: Final = "measured"
"""A vocabulary in whose tokens texts are counted, by `tokens/calibration/token_costs.py`."""

_SENTENCE_PIECE: Final = Scripts(
    1.16, 1.95, 1.10, 1.09, 2.66, 1.62, 1.64, 2.05, 1.48, 2.71, 3.09, 3.02, 2.92, 2.50, 2.61
)
COSTS: Final[dict[str, Scripts]] = {
    UNKNOWN: Scripts(
        1.10, 1.10, 1.10, 1.10, 1.40, 1.10, 1.10, 1.20, 1.20, 1.40, 1.30, 1.60, 1.80, 1.30, 1.40
    ),
    EXACT: Scripts(*[1.0] * len(Scripts._fields)),
    MEASURED: Scripts(*[1.0] * len(Scripts._fields)),
    "qwen": Scripts(
        1.04, 0.90, 1.05, 0.91, 1.26, 0.93, 0.93, 1.14, 1.25, 2.39, 1.40, 2.71, 2.76, 1.44, 0.97
    ),
    "qwen3.5": Scripts(
        1.04, 1.30, 0.96, 0.99, 0.90, 0.86, 0.64, 0.91, 1.03, 1.03, 1.02, 1.29, 1.30, 0.63, 1.29
    ),
    "llama3": Scripts(
        1.04, 0.86, 1.01, 0.95, 1.00, 1.05, 0.96, 1.07, 1.07, 1.05, 1.11, 1.54, 3.36, 1.23, 2.45
    ),
    "llama4": Scripts(
        1.01, 1.04, 1.02, 0.95, 0.80, 0.87, 0.71, 0.88, 0.88, 0.96, 1.08, 1.04, 1.38, 0.81, 1.18
    ),
    "tekken": Scripts(
        1.04, 1.02, 1.05, 1.02, 1.07, 1.33, 0.94, 1.03, 1.10, 1.06, 0.98, 1.15, 1.21, 1.34, 1.15
    ),
    "deepseek": Scripts(
        1.05, 1.08, 1.07, 1.01, 1.84, 0.91, 0.99, 1.21, 1.20, 1.29, 1.24, 1.70, 1.30, 0.98, 1.26
    ),
    "cl100k": Scripts(
        1.04, 0.90, 1.06, 0.91, 1.77, 1.30, 1.48, 1.54, 1.61, 2.48, 2.29, 2.91, 3.38, 2.29, 2.48
    ),
    "sentencepiece": _SENTENCE_PIECE,
    "smollm": Scripts(
        1.10, 1.07, 1.09, 1.10, 3.44, 2.47, 2.65, 4.02, 2.74, 2.37, 3.33, 3.32, 4.63, 4.63, 2.85
    ),
    "glm": Scripts(
        1.02, 0.95, 1.20, 0.95, 1.40, 0.92, 0.99, 1.14, 1.02, 1.08, 1.10, 2.17, 2.50, 1.96, 1.50
    ),
    "kimi": Scripts(
        1.00, 0.99, 1.10, 1.00, 1.30, 0.89, 1.00, 1.13, 1.17, 1.32, 1.22, 1.41, 1.45, 1.71, 1.30
    ),
    "gemma": Scripts(
        1.05, 1.10, 1.05, 1.05, 1.10, 0.95, 0.95, 1.05, 1.10, 1.15, 1.10, 1.20, 1.30, 1.00, 1.20
    ),
    "yi": _SENTENCE_PIECE._replace(latin=1.12, cjk=0.95),
}

# The name may follow a prefix, as fine-tuned models have one. The first pattern is used, so
# narrower ones come before wider ones.
_FAMILIES: Final = tuple(
    (re.compile(rf"(?<![a-z\d])(?:{pattern})"), vocabulary)
    for pattern, vocabulary in (
        (r"gpt-oss", EXACT),
        (r"deepseek-r1-distill-qwen", "qwen"),
        (r"deepseek-r1-distill-llama", "llama3"),
        (r"deepseek", "deepseek"),
        (r"qwen-?3[.][5-9]", "qwen3.5"),
        (r"qwen|qwq|qvq", "qwen"),
        (r"(meta-)?llama-?4", "llama4"),
        (r"(meta-)?llama-?3|hermes-3|nemotron", "llama3"),
        (r"(meta-)?llama-?2|codellama|vicuna|tinyllama|phi-?3|zephyr", "sentencepiece"),
        (
            r"mistral-7b|mixtral|mathstral|codestral-22b|mistral-large-(instruct-)?2407",
            "sentencepiece",
        ),
        (r"mistral|ministral|magistral|devstral|codestral|pixtral|voxtral", "tekken"),
        (r"gemma", "gemma"),
        (r"smollm", "smollm"),
        (r"phi-?4", "cl100k"),
        (r"(chat)?glm", "glm"),
        (r"kimi|moonlight", "kimi"),
        (r"yi-", "yi"),
    )
)
_SINGLE_DIGITS: Final = frozenset(
    ("qwen", "qwen3.5", "tekken", "sentencepiece", "smollm", "gemma", "yi")
)


_ENCODINGS: Final = {"cl100k": "cl100k_base"}


@lru_cache(maxsize=1_024)
def vocabulary_of(model_name: str) -> str:
    """Return the vocabulary that the model's name implies, `UNKNOWN` if it implies none."""
    name = plain_name(model_name)
    return next((known for pattern, known in _FAMILIES if pattern.search(name)), UNKNOWN)


def splits_digits(vocabulary: str) -> bool:
    """Return whether a vocabulary has no tokens of several digits."""
    return vocabulary in _SINGLE_DIGITS


def own_encoding_of(vocabulary: str) -> str | None:
    """Return the encoding that is the vocabulary itself, if there is one."""
    return _ENCODINGS.get(vocabulary)
