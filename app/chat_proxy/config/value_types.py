"""The types of setting values, with their validators."""

import json
import re
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
)
from pydantic_settings import NoDecode

from chat_proxy.compaction.stages.tool_rules import ToolRule
from chat_proxy.registry.base_url import checked_base_url

# As browsers write them: in lower case, without a path.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
_TAG_NAME = re.compile(r"[A-Za-z][\w-]{0,60}")


class Section(BaseModel):
    """Base class of a settings section."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True
    )


Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Pause = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]
Ratio = Annotated[float, Field(ge=0, lt=1)]
Port = Annotated[int, Field(ge=0, le=65535)]
# Each process holds a whole proxy in memory: a larger number is a typing error that would exhaust
# the machine.
Processes = Annotated[int, Field(ge=1, le=256)]


def _lower_case(value: object) -> object:
    """Return `INFO` as `info`: other programs write log levels in capitals."""
    return value.strip().lower() if isinstance(value, str) else value


def _tag_names(names: tuple[str, ...]) -> tuple[str, ...]:
    wrong = next((name for name in names if not _TAG_NAME.fullmatch(name)), None)
    if wrong is not None:
        raise ValueError(
            f"{wrong!r} is not a tag's name: letters, digits, _ and - only, no brackets"
        )
    return names


def _split(value: object) -> object:
    """Split `a,b` into two words, so that an environment variable need not contain JSON."""
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    return value


def _header_value(value: SecretStr) -> SecretStr:
    """Refuse a key that cannot be a header value, such as one read from a file with its newline."""
    key = value.get_secret_value()
    if not key.isprintable() or not key.isascii() or key != key.strip():
        raise ValueError("must be printable ASCII without line breaks or surrounding spaces")
    return value


def _split_keys(value: object) -> object:
    """Split keys at commas; refuse a value without any, which would disable authentication."""
    keys = _split(value)
    if isinstance(value, str) and not keys:
        raise ValueError("contains no key")
    return keys


def _json(value: object) -> object:
    """Parse JSON here, because the error of pydantic-settings does not name the variable."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            raise ValueError("is not valid JSON") from None
    return value


def _tool_rules(value: object) -> object:
    """Refuse a rule that is not known; the message names its tool."""
    for tool, rule in value.items() if isinstance(value, dict) else ():
        if not tool:
            raise ValueError("a rule has no tool: the key must be a name or a pattern with *")
        is_size = type(rule) is int and rule > 0
        if not (is_size or rule in ("whole", "recent")):
            allowed = '"whole", "recent" or a number of bytes from 1'
            raise ValueError(f"the rule of tool {tool!r} must be {allowed}")
    return value


def _origins(origins: tuple[str, ...]) -> tuple[str, ...]:
    wrong = next((origin for origin in origins if not _ORIGIN.fullmatch(origin)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is not an origin: write scheme://host or scheme://host:port")
    return origins


InAnyCase = BeforeValidator(_lower_case)
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Origins = Annotated[Words, AfterValidator(_origins)]
TagNames = Annotated[Words, AfterValidator(_tag_names)]
BaseUrl = Annotated[str, AfterValidator(checked_base_url)]
Key = Annotated[SecretStr, AfterValidator(_header_value)]
Keys = Annotated[tuple[Key, ...], NoDecode, BeforeValidator(_split_keys)]
Fields = Annotated[dict[str, Any], NoDecode, BeforeValidator(_json)]
ToolRules = Annotated[
    dict[str, ToolRule], NoDecode, BeforeValidator(_tool_rules), BeforeValidator(_json)
]
