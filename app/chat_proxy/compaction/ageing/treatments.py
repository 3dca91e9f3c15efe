"""What was done to single tool results, calls and media; later requests repeat it exactly."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

WHOLE_MESSAGE = -1
CLEARED = 0
"""The maximum bytes of a result or call that a client wants to be cleared: a note is left."""

_KEYS = frozenset(("lines", "short", "calls", "media", "scaled", "told"))


class Place(NamedTuple):
    """A tool result or medium: its message's index in the client's list, and its number in it.

    `part` numbers the results embedded in an assistant message, a message's media, or the calls
    of an assistant message that are cleared; a tool message, or the calls of an assistant message
    that are cut, are one as a whole.
    """

    origin: int
    part: int = WHOLE_MESSAGE


@dataclass(frozen=True, slots=True)
class Treatments:
    """How each aged result, call and medium is shown; what is not named here is whole."""

    lines: frozenset[Place] = frozenset()
    """The results of which one line is left."""
    short: Mapping[Place, int] = field(default_factory=dict)
    """The results of which head, tail and error lines are left, with their maximum bytes.

    With CLEARED, one line or a bare note is left, and no media; a shorter text stays.
    """
    calls: Mapping[Place, int] = field(default_factory=dict)
    """The calls whose long arguments are cut, with the maximum bytes of each argument.

    Of a single call with CLEARED, no argument is left.
    """
    media: frozenset[Place] = frozenset()
    """The media that are replaced by a note."""
    scaled: Mapping[Place, int] = field(default_factory=dict)
    """The images that are scaled down, with the longer side in pixels."""
    told: Mapping[Place, str] = field(default_factory=dict)
    """What a model wrote about media that are replaced by a note."""

    @classmethod
    def from_document(cls, document: object) -> Self:
        """Read the output of `as_document`; raise ValueError for anything else."""
        if not isinstance(document, dict) or document.keys() | {"scaled", "told"} != _KEYS:
            raise ValueError("Treatments must have lines, short, calls, media, scaled and told.")
        return cls(
            frozenset(_places_of(document["lines"])),
            _sizes_of(document["short"]),
            _sizes_of(document["calls"]),
            frozenset(_places_of(document["media"])),
            _sizes_of(document.get("scaled", [])),
            _texts_of(document.get("told", [])),
        )

    def as_document(self) -> dict[str, list[list[Any]]]:
        """Return plain lists for JSON; equal treatments give equal lists.

        What earlier versions do not know is named only if it is there, so that they read the rest.
        """
        scaled = [[*place, side] for place, side in sorted(self.scaled.items())]
        told = [[*place, text] for place, text in sorted(self.told.items())]
        return {
            "lines": [list(place) for place in sorted(self.lines)],
            "short": [[*place, size] for place, size in sorted(self.short.items())],
            "calls": [[*place, size] for place, size in sorted(self.calls.items())],
            "media": [list(place) for place in sorted(self.media)],
            **({"scaled": scaled} if scaled else {}),
            **({"told": told} if told else {}),
        }

    def __bool__(self) -> bool:
        return bool(self.lines or self.short or self.calls or self.media or self.scaled)

    def __or__(self, other: Self) -> "Treatments":
        """Return both; where they differ, what is shown shorter."""
        lines = self.lines | other.lines
        short = _smaller_of(self.short, other.short)
        media = self.media | other.media
        scaled = _smaller_of(self.scaled, other.scaled)
        return Treatments(
            lines,
            {place: size for place, size in short.items() if place not in lines},
            _smaller_of(self.calls, other.calls),
            media,
            {place: side for place, side in scaled.items() if place not in media},
            {**other.told, **self.told},
        )

    @property
    def until(self) -> int:
        """The index in the client's list after the last message that is changed."""
        places = (*self.lines, *self.short, *self.calls, *self.media, *self.scaled)
        return 1 + max((place.origin for place in places), default=-1)

    def shifted(self, offset: int) -> "Treatments":
        """Return the treatments for a list in which the messages stand elsewhere.

        Those of messages that the list no longer has are left out.
        """
        kept = self.from_origin(max(0, -offset))

        def moved(place: Place) -> Place:
            return Place(place.origin + offset, place.part)

        return Treatments(
            frozenset(map(moved, kept.lines)),
            {moved(place): size for place, size in kept.short.items()},
            {moved(place): size for place, size in kept.calls.items()},
            frozenset(map(moved, kept.media)),
            {moved(place): side for place, side in kept.scaled.items()},
            {moved(place): text for place, text in kept.told.items()},
        )

    def from_origin(self, origin: int) -> "Treatments":
        """Return the treatments of the messages from an index of the client's list on."""
        return Treatments(
            frozenset(place for place in self.lines if place.origin >= origin),
            {place: size for place, size in self.short.items() if place.origin >= origin},
            {place: size for place, size in self.calls.items() if place.origin >= origin},
            frozenset(place for place in self.media if place.origin >= origin),
            {place: side for place, side in self.scaled.items() if place.origin >= origin},
            {place: text for place, text in self.told.items() if place.origin >= origin},
        )


def _smaller_of(one: Mapping[Place, int], other: Mapping[Place, int]) -> dict[Place, int]:
    both = dict(one)
    for place, size in other.items():
        both[place] = min(size, both.get(place, size))
    return both


def _places_of(rows: object) -> Iterable[Place]:
    return (Place(*row) for row in _rows_of(rows, 2))


def _sizes_of(rows: object) -> dict[Place, int]:
    return {Place(origin, part): size for origin, part, size in _rows_of(rows, 3)}


def _texts_of(rows: object) -> dict[Place, str]:
    texts = {}
    for row in rows if isinstance(rows, list) else [None]:
        if not isinstance(row, list) or len(row) != 3 or type(row[2]) is not str:
            raise ValueError("What was told must name a place and a text.")
        (place,) = _places_of([row[:2]])
        texts[place] = row[2]
    return texts


def _rows_of(rows: object, length: int) -> list[list[int]]:
    if not isinstance(rows, list) or not all(_is_row(row, length) for row in rows):
        raise ValueError("A treatment must name a place by an origin and a part.")
    return rows


def _is_row(row: Any, length: int) -> bool:
    if type(row) is not list or len(row) != length or any(type(item) is not int for item in row):
        return False
    return bool(row[0] >= 0 and row[1] >= WHOLE_MESSAGE and row[-1] >= WHOLE_MESSAGE)
