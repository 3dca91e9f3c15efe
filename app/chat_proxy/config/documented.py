"""The settings as documentation: variable, default and meaning, in the order of the code."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from chat_proxy.config.settings import PREFIX, Settings


@dataclass(frozen=True, slots=True)
class DocumentedSetting:
    """A setting as users see it; the default is written as in `.env`, empty without one."""

    name: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True)
class DocumentedSection:
    """The settings of a section; those without one come first, under an empty name."""

    name: str
    meaning: str
    settings: tuple[DocumentedSetting, ...]


def documented_sections() -> Iterator[DocumentedSection]:
    """Yield every setting, by section."""
    sections = {
        name: field.annotation
        for name, field in Settings.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    }
    alone = {name: it for name, it in Settings.model_fields.items() if name not in sections}
    yield DocumentedSection("", "What the proxy does.", tuple(_settings(PREFIX, alone)))
    for name, section in sections.items():
        settings = tuple(_settings(f"{PREFIX}{name.upper()}_", section.model_fields))
        yield DocumentedSection(name, section.__doc__ or "", settings)


def _settings(prefix: str, fields: dict[str, FieldInfo]) -> Iterator[DocumentedSetting]:
    for name, field in fields.items():
        meaning = " ".join((field.description or "").split())
        yield DocumentedSetting(prefix + name.upper(), written(field.get_default()), meaning)


def written(value: object) -> str:
    """Return a value as it would be written into .env."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(written(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value)
