"""Reading the settings from the environment and `.env`, with one error line per mistake."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import SettingsError

from chat_proxy.config.data_folder import with_data_folder
from chat_proxy.config.settings import PREFIX, Settings
from chat_proxy.config.value_types import Section
from chat_proxy.errors import BadConfiguration

ModelT = TypeVar("ModelT", bound=BaseModel)

# The sections that a model's registry entry may override; the others apply before the model of a
# request is known.
PER_MODEL = frozenset(
    {
        "mode",
        "contracts",
        "vision",
        "media",
        "tools",
        "prune",
        "budget",
        "history",
        "summary",
        "recall",
        "replay",
        "tokens",
    }
)

# Kubernetes sets these in every pod of a namespace with a Service called chat-proxy.
_KUBERNETES = re.compile(
    r"CHAT_PROXY_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
_KUBERNETES_LINKS = ("tcp://", "udp://", "sctp://")
_REASONS = {
    "int_parsing": "must be a whole number, such as 4096",
    "float_parsing": "must be a number, such as 2.5",
    "bool_parsing": "must be true or false",
    "string_too_short": "must not be empty",
}
_BAD_URL = "must be a URL such as http://127.0.0.1:8000/v1"
_PLAIN_WORDS = (
    ("Value error, ", ""),
    ("Input should be greater than or equal to", "must be at least"),
    ("Input should be less than or equal to", "must be at most"),
    ("Input should be", "must be"),
)
_SECRET_NAME = re.compile(r"KEY|SECRET|TOKEN(?!S)|PASS|CREDENTIAL|BEARER")
_SECRET_VALUE = re.compile(r"\b(sk|pk|rk|hf|gsk|ghp|xai|nvapi|Bearer)[-_ ]\w")
_PASSWORD = re.compile(r"//\S*@")
_PASSWORD_IN_QUERY = re.compile(r"(?i)(pass\w*|secret|token|key)=[^&\s]*")


NO_FLAGS: Mapping[str, str] = MappingProxyType({})


def read_settings(
    env_file: Path | None = Path(".env"), flags: Mapping[str, str] = NO_FLAGS
) -> Settings:
    """Return the settings, or raise BadConfiguration naming every variable that is wrong.

    `flags` are variables that the command line sets; they take precedence over all others.
    """
    variables = {**read_variables(env_file), **flags}
    mistakes = list(_unknown_names(variables))
    try:
        settings = Settings(_env_file=env_file, **_by_section(flags))
    except ValidationError as error:
        mistakes += (_explain(dict(detail), variables) for detail in error.errors())
    except SettingsError:
        # A whole section in one variable: _unknown_names has already reported its name.
        assert mistakes
    if mistakes:
        raise BadConfiguration("\n".join(dict.fromkeys(mistakes)))
    return with_data_folder(settings, os.environ.get("XDG_DATA_HOME"))


def wants_colours(variables: Mapping[str, str]) -> bool:
    """Return whether a terminal may get colours: not with NO_COLOR, and not a dumb one."""
    return not variables.get("NO_COLOR") and variables.get("TERM") != "dumb"


def read_variables(env_file: Path | None = Path(".env")) -> Mapping[str, str]:
    """Return the variables of the environment and the file; the environment takes precedence."""
    try:
        _refuse_broken_lines(env_file)
        from_file = dotenv_values(env_file) if env_file else {}
    except OSError as error:
        raise BadConfiguration(f"{env_file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadConfiguration(f"{env_file}: is not UTF-8") from None
    known = {name: value for name, value in from_file.items() if value is not None}
    return MappingProxyType(known | os.environ)


@contextmanager
def environment_with(variables: Mapping[str, str], prefix: str) -> Iterator[None]:
    """Give libraries that read the environment themselves the variables of `.env` too."""
    given = {name: value for name, value in variables.items() if name.startswith(prefix)}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _refuse_broken_lines(env_file: Path | None) -> None:
    """Raise BadConfiguration for a line with a setting that dotenv would ignore, such as `NAME: x`.

    The message does not quote the line, which may contain a key.
    """
    if env_file is None or not env_file.is_file():
        return
    with env_file.open(encoding="utf-8") as lines:
        broken = [binding.original for binding in parse_stream(lines) if binding.error]
    numbers = [line.line for line in broken if PREFIX in line.string.upper()]
    if numbers:
        messages = (f"{env_file}: line {number}: is not NAME=value" for number in numbers)
        raise BadConfiguration("\n".join(messages))


def _by_section(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of variables as arguments of Settings."""
    values: dict[str, Any] = {}
    for name, value in variables.items():
        section, _, field = name.removeprefix(PREFIX).lower().partition("_")
        if field:
            values.setdefault(section, {})[field] = value
        else:
            values[section] = value
    return values


def setting_names() -> dict[str, FieldInfo]:
    """Return the environment variables of all settings with their fields, in declaration order."""
    return dict(_names_of(Settings, PREFIX))


def overridden(settings: Settings, overrides: Mapping[str, object]) -> Settings:
    """Return the settings with a model's overrides applied, or raise BadConfiguration.

    The name of an override is that of its variable, in lower case and without the prefix.
    """
    changes: dict[str, Any] = {}
    for name, value in overrides.items():
        section, _, field = name.partition("_")
        if PREFIX + name.upper() not in setting_names() or name != name.lower():
            nearest = _nearest(PREFIX + name.upper()).removeprefix(PREFIX).lower()
            raise BadConfiguration(f"{name!r}: there is no such setting; did you mean {nearest!r}?")
        if section not in PER_MODEL:
            raise BadConfiguration(f"{name!r}: cannot be set for one model")
        if field:
            changes.setdefault(section, {})[field] = value
        else:
            changes[section] = value
    values = dict(settings)
    for section, change in changes.items():
        values[section] = _with_changes(section, values[section], change)
    # Every section is passed, so that none is read from the environment again.
    return _checked("", Settings, {"_env_file": None, **values})


def _with_changes(section: str, current: object, change: Any) -> object:
    """Return a section with some fields changed; the others stay set or unset as they are."""
    if not isinstance(current, Section):
        return change
    kept = {name: getattr(current, name) for name in current.model_fields_set}
    return _checked(section, type(current), kept | change)


def _checked(section: str, model: type[ModelT], values: dict[str, Any]) -> ModelT:
    try:
        return model(**values)
    except ValidationError as error:
        detail = error.errors()[0]
        words = [section, *(word for word in detail["loc"] if isinstance(word, str))]
        name = "_".join(filter(None, words))
        raise BadConfiguration(f"{name!r}: {_reason(dict(detail))}") from None


def shown(name: str, value: str) -> str:
    """Return a variable's value for printing, with keys and passwords masked.

    The value of an unknown name is masked if it looks like a secret, or if the nearest setting is
    one: the variable may be a mistyped key.
    """
    field = setting_names().get(name)
    if field is None:
        looks_secret = _SECRET_NAME.search(name) or _SECRET_VALUE.search(value)
        masked = bool(looks_secret) or is_secret(setting_names()[_nearest(name)])
    else:
        masked = is_secret(field)
    if masked:
        return value if value in ("", "{}") else "***"
    return _PASSWORD_IN_QUERY.sub(r"\1=***", _PASSWORD.sub("//***@", value))


def is_secret(field: FieldInfo) -> bool:
    """Return whether the field holds a key, or is hidden because it may hold one."""
    return "SecretStr" in repr(field.annotation) or not field.repr


def _names_of(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _names_of(field.annotation, f"{prefix}{name.upper()}_")
        else:
            yield prefix + name.upper(), field


def _unknown_names(variables: Mapping[str, str]) -> Iterator[str]:
    known = setting_names()
    without_marks = {_letters(name) for name in known}
    for name in sorted(variables):
        if name.upper().startswith(PREFIX):
            is_setting = not _KUBERNETES.fullmatch(name)
        else:
            # A mistake in the prefix, such as CHATPROXY_MODE; other programs' names pass, and what
            # Kubernetes sets for a Service called chatproxy-server.
            is_link = variables[name].startswith(_KUBERNETES_LINKS)
            is_setting = _letters(name) in without_marks and not is_link
        if is_setting and name.upper() not in known:
            yield _unknown(name.upper(), variables)


def _letters(name: str) -> str:
    """Return a name in capitals without what separates its words."""
    return name.upper().replace("_", "").replace("-", "").replace(".", "")


def _unknown(name: str, variables: Mapping[str, str]) -> str:
    assignment = _assignment(name, variables)
    return f"{assignment}: there is no such setting; did you mean {_nearest(name)}?"


def _nearest(name: str) -> str:
    return get_close_matches(name, setting_names(), n=1, cutoff=0.0)[0]


def _explain(detail: dict[str, Any], variables: Mapping[str, str]) -> str:
    """Return an error line with the variable, its value and the reason."""
    words = [str(word) for word in detail["loc"] if isinstance(word, str)]
    name = PREFIX + "_".join(words).upper()
    if name not in setting_names():
        return _unknown(name, variables)
    return f"{_assignment(name, variables)}: {_reason(detail)}"


def _assignment(name: str, variables: Mapping[str, str]) -> str:
    value = next((value for key, value in variables.items() if key.upper() == name), "")
    return f"{name}={shown(name, value)!r}"


def _reason(detail: dict[str, Any]) -> str:
    """Return what is wrong in plain words; pydantic's are for programmers."""
    kind: str = detail["type"]
    if kind.startswith("url_"):
        return _BAD_URL
    reason: str = _REASONS.get(kind, detail["msg"])
    for words, plain in _PLAIN_WORDS:
        if reason.startswith(words):
            return plain + reason.removeprefix(words)
    return reason
