"""The stored form of a calibration, which is checked when it is read: it may be old or damaged."""

import json
from math import isfinite
from typing import Any, Final, NamedTuple

from chat_proxy.tokens.calibration.covariance import Matrix, Vector, is_covariance
from chat_proxy.tokens.calibration.factors import (
    KINDS,
    LOOSE,
    MAX_NOISE,
    MIN_NOISES,
    SCRIPTS,
    Factors,
)
from chat_proxy.tokens.calibration.vocabulary_probes import RECOGNISED
from chat_proxy.tokens.images.tokens import is_image_family

VERSION: Final = 3
VERSION_WITH_VOCABULARY: Final = 4
"""The versions that are read; others are ignored and learned anew.

What was learned in a vocabulary that an engine showed must not be read by older proxies.
"""
_FIELDS: Final = ("factors", "doubt", "noises", "lessons", "image_family", "prior")
_MOST_VARIANCE: Final = tuple(4 * LOOSE[n][n] for n in range(KINDS))


class Stored(NamedTuple):
    """The valid content of a stored calibration."""

    factors: Factors
    doubt: Matrix
    noises: Vector
    lessons: int
    image_family: str | None
    vocabulary: str | None


def version_of(vocabulary: str | None) -> int:
    """Return the version of what is stored with this vocabulary."""
    return VERSION if vocabulary is None else VERSION_WITH_VOCABULARY


def stored_fields(vocabulary: str | None) -> tuple[str, ...]:
    """Return the names of the stored fields of a calibration with this vocabulary."""
    return _FIELDS if vocabulary is None else (*_FIELDS, "vocabulary")


def read_stored(text: str | bytes, prior: str) -> Stored | None:
    """Return what was stored for counts with this prior; None if it is not, or is invalid."""
    try:
        document = json.loads(text)
        version, stored_prior = document["version"], document["prior"]
        stored = _stored(document)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None
    if (version, stored_prior) != (version_of(stored.vocabulary), prior):
        return None
    return stored if _is_valid(stored) else None


def _stored(document: Any) -> Stored:
    return Stored(
        Factors(*_numbers(document["factors"])),
        tuple(_numbers(row) for row in document["doubt"]),
        _numbers(document["noises"], SCRIPTS),
        int(*_numbers([document["lessons"]], 1)),
        document["image_family"],
        document.get("vocabulary"),
    )


def _is_valid(stored: Stored) -> bool:
    """Return whether all values are possible ones."""
    factors, doubt, noises, lessons, family, vocabulary = stored
    return (
        factors == factors.bounded()
        and is_covariance(doubt, _MOST_VARIANCE)
        and all(low <= noise <= MAX_NOISE for low, noise in zip(MIN_NOISES, noises, strict=True))
        and 0 <= lessons < 2**53
        and (family is None or (type(family) is str and is_image_family(family)))
        and (vocabulary is None or (type(vocabulary) is str and vocabulary in RECOGNISED))
    )


def _numbers(values: list[float], number: int = KINDS) -> Vector:
    """Return so many finite numbers, one for each kind, or raise ValueError."""
    numbers = tuple(map(float, values))
    if len(numbers) != number or not all(map(isfinite, numbers)):
        raise ValueError("not a finite number for each kind")
    return numbers
