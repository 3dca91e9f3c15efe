"""What was cleared in a conversation; later requests repeat this decision byte for byte."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

WHOLE_MESSAGE = -1


class Place(NamedTuple):
    """A tool result or medium: its message's index in the client's list, and its number in it.

    `part` numbers the results embedded in an assistant message, or a message's media; a tool
    message is one result as a whole.
    """

    origin: int
    part: int = WHOLE_MESSAGE


@dataclass(frozen=True, slots=True)
class Clearing:
    """The tool results and media that were replaced by a note, and the shortened results."""

    results: frozenset[Place] = frozenset()
    shortened: frozenset[Place] = frozenset()
    media: frozenset[Place] = frozenset()

    @classmethod
    def from_lists(cls, document: object) -> Self:
        """Read the output of `as_lists`; raise ValueError for anything else."""
        names = {field.name for field in fields(cls)}
        if not isinstance(document, dict) or document.keys() != names:
            raise ValueError("A clearing must have results, shortened and media.")
        return cls(**{name: _places_of(document[name]) for name in names})

    def as_lists(self) -> dict[str, list[list[int]]]:
        """Return plain lists for JSON; equal clearings give equal lists."""
        return {
            "results": _listed(self.results),
            "shortened": _listed(self.shortened),
            "media": _listed(self.media),
        }

    def __bool__(self) -> bool:
        return bool(self.results or self.shortened or self.media)

    def __or__(self, other: Self) -> "Clearing":
        """Return the union; a result that is cleared is not shortened as well."""
        results = self.results | other.results
        return Clearing(
            results, (self.shortened | other.shortened) - results, self.media | other.media
        )

    @property
    def until(self) -> int:
        """The index in the client's list after the last message that is changed."""
        return 1 + max((place.origin for place in self._places()), default=-1)

    def _places(self) -> Iterable[Place]:
        yield from self.results
        yield from self.shortened
        yield from self.media


def _listed(places: Iterable[Place]) -> list[list[int]]:
    return [list(place) for place in sorted(places)]


def _places_of(pairs: object) -> frozenset[Place]:
    if not isinstance(pairs, list):
        raise ValueError("Places must be a list.")  # noqa: TRY004 - callers expect one error type
    return frozenset(map(_place_of, pairs))


def _place_of(pair: object) -> Place:
    match pair:
        case [int(origin), int(part)] if type(origin) is type(part) is int:
            if origin >= 0 and part >= WHOLE_MESSAGE:
                return Place(origin, part)
    raise ValueError("A place must be an origin and a part.")
