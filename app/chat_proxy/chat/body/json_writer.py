"""JSON as the proxy writes it: orjson's, and plain ASCII for what orjson refuses."""

import json
from collections.abc import Mapping
from typing import Any

import orjson


def serialise(fields: Mapping[str, Any] | list[Any] | None) -> bytes:
    """Serialise a message, a request or a part of one so that it parses to the same value.

    In plain ASCII if it has lone surrogates or long integers, which orjson refuses.
    """
    try:
        return orjson.dumps(fields)
    except TypeError:
        return serialise_ascii(fields)


def serialise_ascii(fields: Mapping[str, Any] | list[Any] | None) -> bytes:
    """Serialise in plain ASCII, which can represent every number and every string."""
    return json.dumps(fields, separators=(",", ":")).encode("ascii")
