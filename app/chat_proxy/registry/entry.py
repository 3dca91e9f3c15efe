"""Validation of a registry file entry, which becomes a model card."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)
from pydantic_core import ErrorDetails

from chat_proxy.registry.bad_entry import BadEntry
from chat_proxy.registry.base_url import checked_base_url
from chat_proxy.registry.curated import is_curated, shared_aliases, to_plain_entry
from chat_proxy.registry.model_card import ModelCard

Text = Annotated[str, Field(pattern=r"\S")]
Tokens = Annotated[int, Field(gt=0)]


class _PlainEntry(BaseModel):
    """The fields of an entry in the file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Text
    aliases: list[Text] = []
    base_url: Annotated[str, AfterValidator(checked_base_url)] | None = None
    api_key_env: str | None = None
    context_window: Tokens | None = None
    max_output_tokens: Tokens | None = None
    vision: bool | None = None
    encoding: Text | None = None
    image_family: Text | None = None
    overrides: dict[str, object] = {}

    @field_validator("api_key_env")
    @classmethod
    def _is_a_variable(cls, name: str | None) -> str | None:
        """Reject what cannot be a variable name: it is most often the key itself."""
        if name is not None and not (name.isascii() and name.isidentifier()):
            raise ValueError("must be the name of an environment variable, not the key itself")
        return name


@dataclass(frozen=True)
class Entry:
    """A model card, and further names that another entry may already use."""

    card: ModelCard
    shared_aliases: tuple[str, ...] = ()


def read_entry(fields: object) -> Entry:
    """Return the entry, or raise BadEntry for the first invalid field."""
    if not isinstance(fields, dict):
        raise BadEntry("", "must be an object with a name")
    if is_curated(fields):
        return Entry(_card(to_plain_entry(fields)), tuple(shared_aliases(fields)))
    return Entry(_card(_without_comments(fields)))


def _without_comments(fields: dict[str, object]) -> dict[str, object]:
    return {
        name: value
        for name, value in fields.items()
        if name != "comment" and not name.startswith("_")
    }


def _card(fields: dict[str, object]) -> ModelCard:
    try:
        entry = _PlainEntry.model_validate(fields)
    except ValidationError as error:
        raise _bad_entry(error.errors()[0]) from None
    return ModelCard(**dict(entry) | {"aliases": tuple(entry.aliases)})


def _bad_entry(detail: ErrorDetails) -> BadEntry:
    """Return an error with the field and the reason, but without the value: it may be a key."""
    field = ".".join(str(word) for word in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return BadEntry(repr(field), f"there is no such field{_nearest(field)}")
    if detail["type"] == "missing":
        return BadEntry(field, "is missing")
    if detail["type"] == "string_pattern_mismatch":
        return BadEntry(field, "must not be empty")
    return BadEntry(field, detail["msg"].removeprefix("Value error, "))


def _nearest(field: str) -> str:
    nearest = get_close_matches(field, _PlainEntry.model_fields, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""
