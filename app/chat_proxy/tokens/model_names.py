"""Normalisation of model names to the form that the lookup tables use."""

import re
from typing import Final

_OPEN_ROUTER_VARIANTS: Final = ("free", "beta", "nitro", "floor", "thinking", "extended", "online")
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


def is_local_tag(name: str) -> bool:
    """Return whether it is an Ollama name (`llama3.1:8b`), whose window the server chooses."""
    return ":" in name
