"""How far our counts are from an upstream's own, learned from the `prompt_tokens` it reports.

Three unknowns per upstream and model: what texts, media and the template's fixed part really
cost. A small Kalman filter keeps them apart, so that a picture does not make texts dearer.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, isfinite, sqrt
from typing import Final, Literal, NamedTuple, Self

from app.tokens.counter import RequestCount

Verdict = Literal["learned", "truncated", "implausible", "guess"]
Vector = tuple[float, float, float]
Matrix = tuple[Vector, Vector, Vector]

_LEAST: Final[Vector] = (0.5, 0.5, -256.0)
_MOST: Final[Vector] = (4.0, 4.0, 8_192.0)
_DOUBT: Final[Matrix] = ((0.16, 0.0, 0.0), (0.0, 0.25, 0.0), (0.0, 0.0, 22_500.0))
"""How unsure the start is, as variances."""
_DRIFT: Final[Vector] = (2e-5, 2e-5, 4.0)
"""What each lesson adds to that, because languages and templates change."""
_NOISE: Final = 0.02
_NOISE_TOKENS: Final = 4.0
_MOST_NOISE: Final = 0.5
_PACE: Final = 0.15
_TRUNCATED_BELOW: Final = 0.6
_TRUNCATED_TOKENS: Final = 256
_OUTLIER: Final = 3.0
_SURPRISES: Final = 3


class Lesson(NamedTuple):
    """What came of one report: the calibration from now on, and whether it was believed."""

    calibration: "Calibration"
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Calibration:
    """Factors for texts and media, and fixed tokens; `surprises` counts misses on one side."""

    factors: Vector = (1.1, 1.0, 0.0)
    doubt: Matrix = _DOUBT
    noise: float = _NOISE
    """How far reports scatter around the best estimate, as a share."""
    lessons: int = 0
    surprises: int = 0
    doubted: tuple[tuple[int, int], ...] = ()
    """Estimate and report of the latest requests that looked truncated."""

    @classmethod
    def fresh(cls, text_factor: float = 1.1) -> Self:
        """Return what is assumed before the first report."""
        return cls(factors=(text_factor, 1.0, 0.0))

    def estimate(self, count: RequestCount) -> int:
        """Return the prompt's tokens as the upstream would count them."""
        return max(0, ceil(self._expected(count)))

    def learn(self, count: RequestCount, prompt_tokens: object, cached_tokens: int = 0) -> Lesson:
        """Take in what the upstream reported for a counted request.

        Reports that cannot be are left aside: nothing, far too much, or so little that the upstream
        dropped a part of the prompt, or left out what it had in its cache.
        """
        if count.is_guess:
            return Lesson(self, "guess")
        if type(prompt_tokens) is not int or not 0 < prompt_tokens <= self._ceiling(count):
            return Lesson(self, "implausible")
        if prompt_tokens >= self._floor(count):
            return Lesson(self._corrected(count, prompt_tokens), "learned")
        whole = prompt_tokens + cached_tokens
        if cached_tokens > 0 and self._floor(count) <= whole <= 1.4 * self._expected(count):
            return Lesson(self._corrected(count, whole), "learned")
        return self._doubting(count, prompt_tokens)

    def to_json(self) -> str:
        """Write it for a store."""
        return json.dumps(
            {
                "factors": self.factors,
                "doubt": self.doubt,
                "noise": self.noise,
                "lessons": self.lessons,
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes, text_factor: float = 1.1) -> Self:
        """Read it back; what cannot be read is a fresh one."""
        try:
            stored = json.loads(text)
            factors = _vector(stored["factors"])
            rows = tuple(_vector(row) for row in stored["doubt"])
            noise, lessons, _ = _vector((stored["noise"], stored["lessons"], 0))
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            return cls.fresh(text_factor)
        if len(rows) != 3 or not (_NOISE <= noise <= _MOST_NOISE and lessons >= 0):
            return cls.fresh(text_factor)
        doubt = (rows[0], rows[1], rows[2])
        if factors != _bounded(factors) or not _is_covariance(doubt):
            return cls.fresh(text_factor)
        return cls(factors=factors, doubt=doubt, noise=noise, lessons=int(lessons))

    def _expected(self, count: RequestCount) -> float:
        text, media, fixed = self.factors
        return text * count.words + media * count.media + fixed + count.overhead

    def _ceiling(self, count: RequestCount) -> float:
        return _MOST[0] * (count.words + count.media) + count.overhead + _MOST[2]

    def _floor(self, count: RequestCount) -> float:
        """Return the least that is believed: media may be far cheaper until that is learned."""
        text, media, fixed = self.factors
        cheapest = max(_LEAST[1], media - 2 * sqrt(self.doubt[1][1]))
        expected = text * count.words + cheapest * count.media + fixed + count.overhead
        return min(_TRUNCATED_BELOW * expected, expected - _TRUNCATED_TOKENS)

    def _doubting(self, count: RequestCount, prompt_tokens: int) -> Lesson:
        """Leave a low report aside, unless low ones keep growing with the requests.

        A server that truncates reports its window again and again; one that renders tools in half
        the tokens reports half, of long requests and short ones.
        """
        doubted = (*self.doubted, (self.estimate(count), prompt_tokens))[-4:]
        waiting = replace(self, doubted=doubted)
        if not _is_proportional(doubted):
            return Lesson(waiting, "truncated")
        unsure = replace(self, doubt=_DOUBT)
        return Lesson(unsure._corrected(count, prompt_tokens), "learned")  # noqa: SLF001

    def _corrected(self, count: RequestCount, prompt_tokens: int) -> Self:
        """Do one step of the filter; a far miss counts less, several on one side count more."""
        weights = (float(count.words), float(count.media), 1.0)
        doubt = _plus_diagonal(self.doubt, _DRIFT)
        spread = _vector([_dot(row, weights) for row in doubt])
        miss = prompt_tokens - self._expected(count)
        variance = _dot(spread, weights) + (self.noise * prompt_tokens + _NOISE_TOKENS) ** 2
        distance = abs(miss) / sqrt(variance)
        side = 1 if miss > 0 else -1
        surprises = self.surprises + side if distance > _OUTLIER else 0
        if abs(surprises) >= _SURPRISES:
            again = replace(self, doubt=_DOUBT, surprises=0)
            return again._corrected(count, prompt_tokens)  # noqa: SLF001
        if distance > _OUTLIER:
            variance *= (distance / _OUTLIER) ** 2
        unexplained = min(miss**2, variance) - _dot(spread, weights)
        gain = _vector([part / variance for part in spread])
        return replace(
            self,
            factors=_bounded(_sum(self.factors, [part * miss for part in gain])),
            doubt=_reduced(doubt, gain, spread),
            noise=self._noisier(unexplained / prompt_tokens**2),
            lessons=self.lessons + 1,
            surprises=surprises,
            doubted=(),
        )

    def _noisier(self, seen: float) -> float:
        """Return the noise with what one report showed of it: languages differ between texts."""
        mixed = (1 - _PACE) * self.noise**2 + _PACE * max(0.0, seen)
        return min(_MOST_NOISE, max(_NOISE, sqrt(mixed)))


def _is_proportional(doubted: tuple[tuple[int, int], ...]) -> bool:
    if len(doubted) < 4:
        return False
    estimates = [estimate for estimate, _ in doubted]
    ratios = [reported / estimate for estimate, reported in doubted]
    return max(estimates) > 1.25 * min(estimates) and max(ratios) < 1.1 * min(ratios)


def _vector(values: Sequence[float]) -> Vector:
    """Return three finite numbers, or raise ValueError."""
    first, second, third = (float(value) for value in values)
    if not (isfinite(first) and isfinite(second) and isfinite(third)):
        raise ValueError("not finite")
    return first, second, third


def _bounded(factors: Vector) -> Vector:
    bounds = zip(factors, _LEAST, _MOST, strict=True)
    return _vector([min(most, max(least, factor)) for factor, least, most in bounds])


def _dot(left: Vector, right: Vector) -> float:
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]


def _sum(left: Vector, right: Sequence[float]) -> Vector:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def _plus_diagonal(matrix: Matrix, diagonal: Vector) -> Matrix:
    """Add the drift, but never beyond the doubt of the start."""
    (a, b, c), (d, e, f), (g, h, i) = matrix
    x, y, z = (
        min(max(_DOUBT[n][n], own), own + more)
        for n, (own, more) in enumerate(zip((a, e, i), diagonal, strict=True))
    )
    return (x, b, c), (d, y, f), (g, h, z)


def _reduced(doubt: Matrix, gain: Vector, spread: Vector) -> Matrix:
    """Take away what a report has settled."""
    rows = [_vector([doubt[r][c] - gain[r] * spread[c] for c in range(3)]) for r in range(3)]
    return rows[0], rows[1], rows[2]


def _is_covariance(matrix: Matrix) -> bool:
    """Tell whether variances are positive and in bounds, and the matrix is symmetric."""
    return all(
        0 < matrix[n][n] <= 4 * _DOUBT[n][n]
        and abs(matrix[n][m] - matrix[m][n]) <= 1e-6 * (1 + abs(matrix[n][m]))
        for n in range(3)
        for m in range(3)
    )
