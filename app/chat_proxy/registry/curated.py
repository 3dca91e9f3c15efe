"""Entries of a curated model library, which say how a server is started, in the plain form.

Such files are written by other programs for other readers, so fields that are not ours are
ignored. Host and port are among them: they say where that program starts its servers.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import pairwise

from chat_proxy.registry.bad_entry import BadEntry
from chat_proxy.registry.model_card import ModelCard

_OUR_FIELDS = frozenset(field.name for field in fields(ModelCard))
# What vLLM, SGLang and Ollama call the window.
_WINDOW_FLAGS = frozenset({"--max-model-len", "--context-length", "--num-ctx"})
# vLLM then takes what fits into the GPU: only discovery can tell.
_CHOSEN_AT_START = frozenset({"auto", "-1"})
_NUMBER = re.compile(r"[0-9]{1,9}|[0-9]{1,9}(\.[0-9]{1,9})?[km]|[0-9]{1,9}[KM]")
_UNITS = {"k": 10**3, "m": 10**6, "K": 2**10, "M": 2**20}
_SIGHT = frozenset({"vision", "visual", "image", "multimodal", "mm", "vl"})


def is_curated(entry: Mapping[str, object]) -> bool:
    """Tell whether the entry has the curated form."""
    return "backend_config" in entry


def plain_form(entry: Mapping[str, object]) -> dict[str, object]:
    """Return the entry's fields in the plain form, or raise BadEntry; what is ours counts more."""
    ours = {name: entry[name] for name in _OUR_FIELDS if entry.get(name) is not None}
    window = _window(entry["backend_config"])
    return {"context_window": window, "vision": _vision(entry.get("capabilities"))} | ours


def nicknames(entry: Mapping[str, object]) -> Iterator[str]:
    """Yield the names that several entries of such files share, as two builds of a model do."""
    aliases = entry.get("model_aliases") or []
    if not isinstance(aliases, list):
        raise BadEntry("model_aliases", "must be a list of names")
    for name in (entry.get("served_model_id"), *aliases, entry.get("display_name")):
        if isinstance(name, str) and name.strip() and name != "None":
            yield name


def _window(backend: object) -> int | None:
    if backend is None:
        return None
    if not isinstance(backend, dict):
        raise BadEntry("backend_config", "must be an object")
    arguments = backend.get("extra_args") or []
    if not isinstance(arguments, list):
        raise BadEntry("backend_config.extra_args", "must be a list of words")
    values = list(_window_values([str(word) for word in arguments]))
    # The last one counts, as on any command line.
    return _tokens(values[-1]) if values else None


def _window_values(words: list[str]) -> Iterator[str]:
    """Yield what follows a window flag, in the next word or after `=` in the same."""
    for word, following in pairwise([*words, ""]):
        flag, equals, value = word.partition("=")
        if flag.replace("_", "-") in _WINDOW_FLAGS:
            yield value if equals else following


def _tokens(value: str) -> int | None:
    """Read a number as vLLM does: 32k is 32,000 and 32K is 32,768."""
    if value in _CHOSEN_AT_START:
        return None
    if not _NUMBER.fullmatch(value):
        raise BadEntry("backend_config.extra_args", f"{value!r} is not a number of tokens")
    unit = _UNITS.get(value[-1])
    return int(float(value[:-1]) * unit) if unit else int(value)


def _vision(capabilities: object) -> bool | None:
    """Tell whether the model sees; an empty or missing list says nothing about it."""
    if not capabilities:
        return None
    if isinstance(capabilities, list):
        return any(str(word).lower() in _SIGHT for word in capabilities)
    if not isinstance(capabilities, dict):
        raise BadEntry("capabilities", "must be a list or an object")
    vision = capabilities.get("vision")
    if isinstance(vision, dict):
        vision = vision.get("enabled")  # beside it, how images are to be prepared
    if vision is not None and not isinstance(vision, bool):
        raise BadEntry("capabilities.vision", "must be true or false")
    return vision
