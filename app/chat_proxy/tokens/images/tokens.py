"""The tokens of an image by model family and size, with a default for unknown ones."""

import re
from functools import lru_cache, partial
from math import ceil
from typing import Final

from chat_proxy.tokens.images.formulas import FORMULAS, Formula, qwen
from chat_proxy.tokens.images.size import Size, image_size
from chat_proxy.tokens.model_names import plain_name

DEFAULT_IMAGE_TOKENS: Final = 1_600

_QWEN_MAX_PIXELS = re.compile(r"(qwen[23]-vl):([0-9]{4,9})")
_NEEDS_NO_SIZE: Final = frozenset(("gemini-3", "gemma-3", "gemma-4", "llava"))
_OPENAI = re.compile(r"gpt-|o\d|computer-")
_ANY_SIZE: Final = Size(512, 512)
_CELL: Final = 28
_MAX_CELLS: Final = 16_384

# For patterns that may follow a prefix: fine-tuned models have one in front of the base name.
_ANYWHERE: Final = r"(?<![a-z0-9])"

# The first pattern that matches the bare name is used; versions may have dots or dashes.
_FAMILY_OF_NAME: Final = tuple(
    (re.compile(pattern if pattern.startswith(_ANYWHERE) else rf"\A(?:{pattern})"), family)
    for pattern, family in (
        (r"(chatgpt-)?gpt-4o-mini", "gpt-4o-mini"),
        (r"(chatgpt-)?gpt-4o|chatgpt-4o|gpt-4-turbo|gpt-4-vision", "gpt-4o"),
        (r"gpt-4[.]1-(mini|nano)", r"gpt-4.1-\1"),
        (r"gpt-4[.]1", "gpt-4.1"),
        (r"gpt-4[.]5", "gpt-4.5"),
        (r"gpt-5[.]4-(mini|nano)", r"gpt-5.4-\1"),
        (r"gpt-5[.][45](?!\d)", r"\g<0>"),
        (r"gpt-5[.][6-9]", "gpt-5.6"),
        (r"gpt-5[.][23](?!\d)", "gpt-5.2"),
        (r"gpt-5-(mini|nano)", r"gpt-5-\1"),
        (r"gpt-5([.]1)?(?![.\d])", "gpt-5"),
        (r"o1-mini|o3-mini", ""),
        (r"o1(?!\d)", "o1"),
        (r"o3(?!\d)", "o3"),
        (r"o4-mini", "o4-mini"),
        (r"computer-use-preview", "computer-use-preview"),
        (r"claude-[a-z]+-(4[-.]([7-9]|[1-9]\d)|([5-9]|[1-9]\d))(?!\d)", "claude-high-res"),
        (r"claude-", "claude"),
        (r"gemini-[12][.-]", "gemini-2"),
        (r"gemini-3", "gemini-3"),
        (_ANYWHERE + r"(qwen[-_]?2([.-]5)?-(vl|omni)|qvq)", "qwen2-vl"),
        (_ANYWHERE + r"(qwen[-_]?3-(vl|omni)|qwen3[.][56])", "qwen3-vl"),
        (r"(meta-)?llama-?4", "llama-4"),
        (_ANYWHERE + r"internvl", "internvl"),
        (r"gemma-?3(?!n)", "gemma-3"),
        (r"gemma-?4", "gemma-4"),
        (r"llava(?!.*(next|1[.]6|onevision|ov))", "llava"),
    )
)


def image_tokens(data: str, detail: str | None, family: str | None, default: int) -> int:
    """Return the tokens of one image; `default` if family or size is unknown."""
    formula = _formula(family or "")
    if formula is None or family is None:
        return default
    detail = (detail or "").lower()
    size = _ANY_SIZE if _is_sizeless(family, detail) else image_size(data)
    return default if size is None else formula(size, detail)


def cells_of(size: Size) -> int:
    """Return the 28 px cells of an image, to which many families' tokens are in proportion."""
    return min(_MAX_CELLS, ceil(size.width / _CELL) * ceil(size.height / _CELL))


def tokens_of_size(size: Size, detail: str | None, family: str | None) -> int | None:
    """Return the tokens of an image of this size, None if the family is unknown."""
    formula = _formula(family or "")
    return None if formula is None else formula(size, (detail or "").lower())


@lru_cache(maxsize=1_024)
def image_family_of(model_name: str) -> str | None:
    """Return the family that the model name implies, None if it implies none."""
    name = plain_name(model_name)
    for pattern, family in _FAMILY_OF_NAME:
        if found := pattern.search(name):
            return found.expand(family) or None
    return None


def is_image_family(word: str) -> bool:
    """Return whether a registry value names a family: `gpt-4o`, or `qwen2-vl:1003520` (pixels)."""
    return _formula(word) is not None


@lru_cache(maxsize=1_024)
def _formula(family: str) -> Formula | None:
    """Return the family's formula; Qwen's may have the server's `max_pixels` after a colon."""
    limited = _QWEN_MAX_PIXELS.fullmatch(family)
    if limited is None:
        return FORMULAS.get(family)
    usual = FORMULAS[limited[1]]
    assert isinstance(usual, partial)
    assert usual.func is qwen
    keywords = dict(usual.keywords)
    return partial(qwen, **(keywords | {"most": max(keywords["least"], int(limited[2]))}))


def _is_sizeless(family: str, detail: str) -> bool:
    return family in _NEEDS_NO_SIZE or (detail == "low" and bool(_OPENAI.match(family)))
