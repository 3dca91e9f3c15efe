"""The models' vocabularies: one that is trained here, and one that models in use have."""

import json
import sysconfig
from base64 import b64decode
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, Final

SPECIAL: Final = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
)
_SMALL: Final = 32_768
_TEKKEN: Final = Path("mistral_common", "data", "tekken_240911.json")
_SPLIT: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def trained() -> Any:
    """Return a small tokenizer that has read little, the same for the same texts."""
    parts = import_module("tokenizers")
    tokenizer = _splitting(parts.models.BPE(), _SPLIT)
    trainer = parts.trainers.BpeTrainer(
        vocab_size=_SMALL,
        special_tokens=list(SPECIAL),
        initial_alphabet=parts.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    return tokenizer


def tekken() -> Any:
    """Return the tokenizer of Mistral's models since Nemo, from a package that the engine needs."""
    parts = import_module("tokenizers")
    file = json.loads(Path(sysconfig.get_path("purelib"), _TEKKEN).read_text())
    config = file["config"]
    size = config["default_vocab_size"] - config["default_num_special_tokens"]
    letters = _letters()
    ranks = {
        "".join(letters[byte] for byte in b64decode(entry["token_bytes"])): rank
        for rank, entry in enumerate(file["vocab"][:size])
    }
    model = parts.models.BPE(ranks, _merges(ranks), ignore_merges=True)
    tokenizer = _splitting(model, config["pattern"])
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


def _splitting(model: Any, pattern: str) -> Any:
    """Return a byte-level tokenizer that splits texts in this way before it merges."""
    parts = import_module("tokenizers")
    tokenizer = parts.Tokenizer(model)
    split = parts.pre_tokenizers.Split(parts.Regex(pattern), behavior="isolated")
    pieces = parts.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = parts.pre_tokenizers.Sequence([split, pieces])
    tokenizer.decoder = parts.decoders.ByteLevel()
    return tokenizer


def _merges(ranks: dict[str, int]) -> list[tuple[str, str]]:
    """Return each way to put a token together from two, in the order of their results."""
    cuts = ((token[:at], token[at:]) for token in ranks for at in range(1, len(token)))
    return [(left, right) for left, right in cuts if left in ranks and right in ranks]


def _letters() -> list[str]:
    """Return what stands for each byte in a vocabulary: itself, or a letter beyond all bytes."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    beyond = count(256)
    return [chr(byte if byte in printable else next(beyond)) for byte in range(256)]


def _texts() -> list[str]:
    """Return what is learned from: Python's library, and what packages say of themselves.

    Not this repository's texts, which the conversations are made of: none shall be known by heart.
    """
    code = Path(sysconfig.get_path("stdlib")).glob("*.py")
    prose = Path(sysconfig.get_path("purelib")).glob("*.dist-info/METADATA")
    found = [path.read_text(errors="replace") for path in sorted([*code, *prose])]
    return [*found, "assistant\n" * 5_000]  # one token in every chat model's vocabulary
