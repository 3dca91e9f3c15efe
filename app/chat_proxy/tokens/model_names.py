"""Normalisation of model names to the form that the lookup tables use."""

import re
from typing import Final

_OPEN_ROUTER_VARIANTS: Final = ("free", "beta", "nitro", "floor", "thinking", "extended", "online")
_MAX_PATH_CHARS: Final = 512
_FINE_TUNED = re.compile(r"ft:([^:]+):.*")


def plain_name(model: str) -> str:
    """Return the bare name in lower case, without vendor, fine-tuning account and variant."""
    name = model.strip().lower()
    tuned = _FINE_TUNED.fullmatch(name)
    if tuned:
        name = tuned[1]
    name = name.rstrip("/").rpartition("/")[2]
    bare, _, variant = name.rpartition(":")
    return bare if variant in _OPEN_ROUTER_VARIANTS else name


def base_names(bases: tuple[str, ...]) -> list[str]:
    """Return the names that bases may contain: each part of a path, the last one first.

    A model in a cache of Hugging Face lies in `models--Qwen--Qwen2-VL-7B-Instruct/snapshots/0123`.
    """
    return [
        part.rpartition("--")[2]
        for base in bases
        for part in reversed(base[-_MAX_PATH_CHARS:].split("/"))
        if part
    ]


def is_local_tag(name: str) -> bool:
    """Return whether it is an Ollama name (`llama3.1:8b`), whose window the server chooses."""
    return ":" in name
