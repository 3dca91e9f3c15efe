"""What was cleared of a conversation: a decision that later requests repeat to the byte."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

WHOLE_MESSAGE = -1


class Place(NamedTuple):
    """A result or medium: the message's place in the client's list, and which one of it.

    `part` counts a message's folded tool results, or its media; an ordinary tool message is a
    result as a whole.
    """

    origin: int
    part: int = WHOLE_MESSAGE


@dataclass(frozen=True, slots=True)
class Clearing:
    """Which tool results and media were replaced by a note, and which results were shortened."""

    results: frozenset[Place] = frozenset()
    shortened: frozenset[Place] = frozenset()
    media: frozenset[Place] = frozenset()

    @classmethod
    def from_lists(cls, document: object) -> Self:
        """Return what `as_lists` wrote, or raise ValueError if anything else was read."""
        names = {field.name for field in fields(cls)}
        if not isinstance(document, dict) or document.keys() != names:
            raise ValueError("A clearing has results, shortened and media.")
        return cls(**{name: _places_of(document[name]) for name in names})

    def as_lists(self) -> dict[str, list[list[int]]]:
        """Return plain lists for JSON, the same for the same clearing."""
        return {
            "results": _listed(self.results),
            "shortened": _listed(self.shortened),
            "media": _listed(self.media),
        }

    def __bool__(self) -> bool:
        return bool(self.results or self.shortened or self.media)

    def __or__(self, other: Self) -> "Clearing":
        """Return both together; what is cleared need not be shortened as well."""
        results = self.results | other.results
        return Clearing(
            results, (self.shortened | other.shortened) - results, self.media | other.media
        )

    @property
    def until(self) -> int:
        """The place in the client's list behind the last message that is touched."""
        return 1 + max((place.origin for place in self._places()), default=-1)

    def _places(self) -> Iterable[Place]:
        yield from self.results
        yield from self.shortened
        yield from self.media


def _listed(places: Iterable[Place]) -> list[list[int]]:
    return [list(place) for place in sorted(places)]


def _places_of(pairs: object) -> frozenset[Place]:
    if not isinstance(pairs, list):
        raise ValueError("Places come as a list.")  # noqa: TRY004 - whoever reads it asks for one error
    return frozenset(map(_place_of, pairs))


def _place_of(pair: object) -> Place:
    match pair:
        case [int(origin), int(part)] if type(origin) is type(part) is int:
            if origin >= 0 and part >= WHOLE_MESSAGE:
                return Place(origin, part)
    raise ValueError("A place is an origin and a part.")
