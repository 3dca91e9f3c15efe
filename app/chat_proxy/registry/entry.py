"""An entry of the registry file becomes a model card, or says which field is wrong."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, HttpUrl, ValidationError, field_validator
from pydantic_core import ErrorDetails

from chat_proxy.registry.bad_entry import BadEntry
from chat_proxy.registry.curated import is_curated, nicknames, plain_form
from chat_proxy.registry.model_card import ModelCard

Text = Annotated[str, Field(pattern=r"\S")]
Tokens = Annotated[int, Field(gt=0)]


class _PlainEntry(BaseModel):
    """The fields of an entry as the file has them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Text
    aliases: list[Text] = []
    base_url: HttpUrl | None = None
    api_key_env: str | None = None
    context_window: Tokens | None = None
    max_output_tokens: Tokens | None = None
    vision: bool | None = None
    encoding: Text | None = None
    image_family: Text | None = None
    overrides: dict[str, object] = {}

    @field_validator("base_url")
    @classmethod
    def _has_only_an_address(cls, url: HttpUrl | None) -> HttpUrl | None:
        if url and (url.username or url.password or url.query or url.fragment):
            raise ValueError("must have no user name, password, query or fragment")
        return url

    @field_validator("api_key_env")
    @classmethod
    def _is_a_variable(cls, name: str | None) -> str | None:
        """Refuse what cannot be a variable's name: most often it is the key itself."""
        if name is not None and not (name.isascii() and name.isidentifier()):
            raise ValueError("must be the name of an environment variable, not the key itself")
        return name


@dataclass(frozen=True)
class Entry:
    """A card, and names for it that it may have to leave to another."""

    card: ModelCard
    nicknames: tuple[str, ...] = ()


def read_entry(fields: object) -> Entry:
    """Return the entry, or raise BadEntry for the first field that is wrong."""
    if not isinstance(fields, dict):
        raise BadEntry("", "must be an object with a name")
    if is_curated(fields):
        return Entry(_card(plain_form(fields)), tuple(nicknames(fields)))
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
    base_url = _address(entry.base_url) if entry.base_url else None
    return ModelCard(**dict(entry) | {"aliases": tuple(entry.aliases), "base_url": base_url})


def _address(url: HttpUrl) -> str:
    """Complete a bare `http://host:port` with `/v1`, as the settings do."""
    path = (url.path or "").rstrip("/") or "/v1"
    port = "" if url.port == {"http": 80, "https": 443}[url.scheme] else f":{url.port}"
    return f"{url.scheme}://{url.host}{port}{path}"


def _bad_entry(detail: ErrorDetails) -> BadEntry:
    """Name the field and what is wrong, without the value: it may be a key."""
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
