"""Conversion of curated model library entries, which describe how a server is started.

Other programs write such files for their own use, so unknown fields are ignored. Host and port are
among them: they are the addresses at which that program starts its servers.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import pairwise

from chat_proxy.registry.bad_entry import BadEntry
from chat_proxy.registry.model_card import ModelCard

_CARD_FIELDS = frozenset(field.name for field in fields(ModelCard))
# The names of the context window in vLLM, SGLang and Ollama.
_WINDOW_FLAGS = frozenset({"--max-model-len", "--context-length", "--num-ctx"})
# With these vLLM uses what fits into the GPU: only discovery can find the window.
_CHOSEN_AT_START = frozenset({"auto", "-1"})
_NUMBER = re.compile(r"[0-9]{1,9}|[0-9]{1,9}(\.[0-9]{1,9})?[km]|[0-9]{1,9}[KM]")
_UNITS = {"k": 10**3, "m": 10**6, "K": 2**10, "M": 2**20}
_VISION_WORDS = frozenset({"vision", "visual", "image", "multimodal", "mm", "vl"})


def is_curated(entry: Mapping[str, object]) -> bool:
    """Return whether the entry has the curated form."""
    return "backend_config" in entry


def to_plain_entry(entry: Mapping[str, object]) -> dict[str, object]:
    """Return the entry's fields in the plain form, or raise BadEntry.

    Fields that the entry already has in the plain form take precedence.
    """
    plain_fields = {name: entry[name] for name in _CARD_FIELDS if entry.get(name) is not None}
    window = _window(entry["backend_config"])
    return {"context_window": window, "vision": _vision(entry.get("capabilities"))} | plain_fields


def shared_aliases(entry: Mapping[str, object]) -> Iterator[str]:
    """Yield the names that several entries may share, as two builds of a model do."""
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
        raise BadEntry("backend_config.extra_args", "must be a list of arguments")
    values = list(_window_values([str(argument) for argument in arguments]))
    # The last one takes effect, as on any command line.
    return _tokens(values[-1]) if values else None


def _window_values(arguments: list[str]) -> Iterator[str]:
    """Yield the value of each window flag: the next argument, or what follows `=`."""
    for argument, following in pairwise([*arguments, ""]):
        flag, equals, value = argument.partition("=")
        if flag.replace("_", "-") in _WINDOW_FLAGS:
            yield value if equals else following


def _tokens(value: str) -> int | None:
    """Parse a number as vLLM does: 32k is 32,000 and 32K is 32,768."""
    if value in _CHOSEN_AT_START:
        return None
    if not _NUMBER.fullmatch(value):
        raise BadEntry("backend_config.extra_args", f"{value!r} is not a number of tokens")
    unit = _UNITS.get(value[-1])
    return int(float(value[:-1]) * unit) if unit else int(value)


def _vision(capabilities: object) -> bool | None:
    """Return whether the model accepts images; None if the list is empty or missing."""
    if not capabilities:
        return None
    if isinstance(capabilities, list):
        return any(str(word).lower() in _VISION_WORDS for word in capabilities)
    if not isinstance(capabilities, dict):
        raise BadEntry("capabilities", "must be a list or an object")
    vision = capabilities.get("vision")
    if isinstance(vision, dict):
        vision = vision.get("enabled")  # the other fields describe image preprocessing
    if vision is not None and not isinstance(vision, bool):
        raise BadEntry("capabilities.vision", "must be true or false")
    return vision
