"""The environment and `.env` become one frozen Settings, or one clear line for each mistake."""

import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dotenv import dotenv_values
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from app.settings import PREFIX, Settings

# Kubernetes sets these in every pod beside a Service that is called chat-proxy.
_KUBERNETES = re.compile(
    r"CHAT_PROXY_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
_PASSWORD = re.compile(r"//[^/@\s]*@")
_SECRET_WORDS = re.compile(r"KEY|SECRET|TOKEN(?!S)|PASS")


class BadConfiguration(Exception):
    """The configuration cannot be used; each line of the text says one reason."""


def read_settings(env_file: Path | None = Path(".env")) -> Settings:
    """Return the settings, or raise BadConfiguration naming every variable that is wrong."""
    variables = read_variables(env_file)
    mistakes = list(_unknown_names(variables))
    try:
        settings = Settings(_env_file=env_file)
    except ValidationError as error:
        mistakes += (_explain(dict(detail), variables) for detail in error.errors())
        raise BadConfiguration("\n".join(dict.fromkeys(mistakes))) from None
    if mistakes:
        raise BadConfiguration("\n".join(mistakes))
    return settings


def read_variables(env_file: Path | None = Path(".env")) -> Mapping[str, str]:
    """Return the environment, completed by the file's variables."""
    from_file = dotenv_values(env_file) if env_file else {}
    known = {name: value for name, value in from_file.items() if value is not None}
    return MappingProxyType(known | os.environ)


def setting_names() -> dict[str, FieldInfo]:
    """Return every setting's environment variable with its field, in the order of the file."""
    return dict(_names_of(Settings, PREFIX))


def is_secret(field: FieldInfo) -> bool:
    """Tell whether the field holds a key."""
    return "SecretStr" in repr(field.annotation)


def _names_of(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _names_of(field.annotation, f"{prefix}{name.upper()}_")
        else:
            yield prefix + name.upper(), field


def _unknown_names(variables: Mapping[str, str]) -> Iterator[str]:
    known = setting_names()
    for name in sorted(variables):
        ours = name.upper().startswith(PREFIX) and not _KUBERNETES.fullmatch(name)
        if ours and name.upper() not in known:
            yield _unknown(name.upper(), variables)


def _unknown(name: str, variables: Mapping[str, str]) -> str:
    nearest = get_close_matches(name, setting_names(), n=1, cutoff=0.0)[0]
    shown = _shown(name, setting_names()[nearest], variables)
    return f"{name}={shown}: there is no such setting; did you mean {nearest}?"


def _shown(name: str, field: FieldInfo, variables: Mapping[str, str]) -> str:
    """Return the variable's value as it may be printed: a mistyped key's name is a key too."""
    if is_secret(field) or _SECRET_WORDS.search(name):
        return "***"
    value = next((value for key, value in variables.items() if key.upper() == name), "")
    return repr(_PASSWORD.sub("//***@", value))


def _explain(detail: dict[str, Any], variables: Mapping[str, str]) -> str:
    """Name the variable, its value and what is wrong with it."""
    words = [str(word) for word in detail["loc"] if isinstance(word, str)]
    name = PREFIX + "_".join(words).upper()
    field = setting_names().get(name)
    if field is None:
        return _unknown(name, variables)
    reason = detail["msg"].removeprefix("Value error, ")
    return f"{name}={_shown(name, field, variables)}: {reason}"
