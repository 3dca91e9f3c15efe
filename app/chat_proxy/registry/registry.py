import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from chat_proxy.registry.bad_entry import BadEntry
from chat_proxy.registry.entry import Entry, read_entry
from chat_proxy.registry.model_card import ModelCard


class BadRegistry(Exception):
    """The registry file is invalid; the message is one line with the reason."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")


class ModelRegistry:
    """The models that the operator has configured, by name and alias."""

    def __init__(self, cards: Iterable[ModelCard] = ()) -> None:
        self.cards = tuple(cards)
        self._by_name = {name: card for card in self.cards for name in card.names}

    def find(self, model: str) -> ModelCard:
        """Return the model's card; an unknown model is served by the default upstream."""
        return self._by_name.get(model) or ModelCard(model)

    def name_of(self, model: str) -> str | None:
        """Return the configured name of a model that is called by name or alias, None if none."""
        card = self._by_name.get(model)
        return card.name if card else None

    @property
    def has_own_upstreams(self) -> bool:
        """Whether any model has an upstream other than the default one."""
        return any(card.base_url for card in self.cards)


def read_registry(path: Path) -> ModelRegistry:
    """Return the models of the file (none if it does not exist), or raise BadRegistry."""
    entries = [_read_entry(path, number, fields) for number, fields in enumerate(_read(path), 1)]
    _refuse_shared_names(path, [entry.card for entry in entries])
    return ModelRegistry(_with_nicknames(entries))


def _read(path: Path) -> list[object]:
    try:
        # Editors on Windows may start a file with a byte order mark.
        entries = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadRegistry(path, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadRegistry(path, "is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise BadRegistry(path, f"is not JSON: {error}") from None
    if not isinstance(entries, list):
        raise BadRegistry(path, "must be a list of entries")
    return entries


def _read_entry(path: Path, number: int, fields: object) -> Entry:
    try:
        return read_entry(fields)
    except BadEntry as error:
        name = fields.get("name") if isinstance(fields, dict) else None
        raise BadRegistry(path, f"{_entry_title(number, name)}: {error}") from None


def _entry_title(number: int, name: object) -> str:
    """Return the entry's number and name; the name is quoted to keep it on one line."""
    return f"entry {number} ({name!r})" if isinstance(name, str) else f"entry {number}"


def _refuse_shared_names(path: Path, cards: Iterable[ModelCard]) -> None:
    owners: dict[str, str] = {}
    for number, card in enumerate(cards, 1):
        title = _entry_title(number, card.name)
        for field, name in _named_fields(card):
            if name in owners:
                raise BadRegistry(path, f"{title}: {field}: {name!r} is taken by {owners[name]}")
            owners[name] = title


def _named_fields(card: ModelCard) -> Iterator[tuple[str, str]]:
    yield "name", card.name
    for alias in card.aliases:
        yield "aliases", alias


def _with_nicknames(entries: list[Entry]) -> Iterator[ModelCard]:
    """Yield the cards with their unused nicknames; the first entry keeps one that is shared."""
    taken = {name for entry in entries for name in entry.card.names}
    for entry in entries:
        free = dict.fromkeys(name for name in entry.shared_aliases if name not in taken)
        taken.update(free)
        yield replace(entry.card, aliases=(*entry.card.aliases, *free))
