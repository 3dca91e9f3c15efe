"""How far our counts are from an upstream's own, learned from the `prompt_tokens` it reports.

The unknowns per upstream and model are what each kind of token that we count really costs, and
what is in every prompt: one tokenizer splits numbers into digits, which results of tools are full
of, one template leaves out the ids of calls, another frames a message in two tokens and not five.
A small Kalman filter keeps them apart, so that a picture does not make texts dearer, nor a template
that introduces tools in few words texts cheaper.
"""

import json
from collections.abc import Iterable
from itertools import repeat
from math import ceil, isfinite, sqrt
from operator import le, mul, sub
from typing import Final, Literal, NamedTuple, Self

from chat_proxy.tokens.counter import RequestCount

Verdict = Literal["learned", "truncated", "implausible", "guess"]
Vector = tuple[float, ...]
Matrix = tuple[Vector, ...]

_NOISE: Final = 0.02
_NOISE_TOKENS: Final = 4.0
_MOST_NOISE: Final = 0.5
_PACE: Final = 0.15
_TRUNCATED_BELOW: Final = 0.6
_TRUNCATED_TOKENS: Final = 256
_REPORTS: Final = 5
_GROWTH: Final = 0.1
_SLOPE: Final = 1 / 3
_ASIDE: Final = 0.1
_OUTLIER: Final = 3.0
_SURPRISES: Final = 3


class Factors(NamedTuple):
    """The upstream's tokens for each of ours, by kind, and those that every prompt has."""

    text: float = 1.1
    tool_messages: float = 1.1
    """Calls of tools and their results."""
    tools: float = 1.1
    """Definitions of tools."""
    media: float = 1.0
    frames: float = 1.0
    """What the template writes around each message."""
    preamble: float = 0.0
    """Tokens before definitions of tools, beside those that we assume."""
    fixed: float = 0.0

    def bounded(self) -> "Factors":
        """Return the nearest ones that can be."""
        if all(map(le, _LEAST, self)) and all(map(le, self, _MOST)):
            return self
        return Factors(*map(min, _MOST, map(max, _LEAST, self)))


_LEAST: Final = Factors(0.5, 0.5, 0.0, 0.5, 0.0, -256.0, -256.0)
_MOST: Final = Factors(4.0, 4.0, 4.0, 4.0, 4.0, 1_024.0, 8_192.0)
_KINDS: Final = len(Factors._fields)
_MEDIA: Final = Factors._fields.index("media")
_DOUBT: Final[Matrix] = (
    (0.16, 0.15, 0.15, 0.0, 0.0, 0.0, 0.0),
    (0.15, 0.17, 0.15, 0.0, 0.0, 0.0, 0.0),
    (0.15, 0.15, 0.30, 0.0, 0.0, 0.0, 0.0),
    (0.0, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0),
    (0.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.0),
    (0.0, 0.0, 0.0, 0.0, 0.0, 22_500.0, 0.0),
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 22_500.0),
)
"""How unsure the start is, as variances: what one kind of words costs tells much of the others.

Definitions follow texts, but tell little of them: a template may write them in a way of its own.
"""
_DRIFT: Final = Factors(2e-5, 2e-5, 2e-5, 2e-5, 2e-5, 1.0, 1.0)
"""What each lesson adds to that, because languages and templates change."""


class Lesson(NamedTuple):
    """What came of one report: the calibration from now on, and whether it was believed."""

    calibration: "Calibration"
    verdict: Verdict


class Calibration(NamedTuple):
    """What tokens cost by kind, and how sure that is; `surprises` counts misses on one side."""

    factors: Factors = Factors()
    doubt: Matrix = _DOUBT
    noise: float = _NOISE
    """How far reports scatter around the best estimate, as a share."""
    lessons: int = 0
    surprises: int = 0
    doubted: tuple[tuple[float, int], ...] = ()
    """Estimate and report of the latest requests that looked truncated."""

    @classmethod
    def fresh(cls, text_factor: float = 1.1) -> Self:
        """Return what is assumed before the first report."""
        return cls(Factors(text_factor, text_factor, text_factor))

    def estimate(self, count: RequestCount) -> int:
        """Return the prompt's tokens as the upstream would count them."""
        text, tool_messages, tools, media, frames, preamble, fixed = self.factors
        tokens = text * (count.text + count.reasoning) + frames * count.overhead + fixed
        if called := count.tool_calls + count.tool_results:
            tokens += tool_messages * called
        if count.tools:
            tokens += tools * count.tools + preamble
        if seen := count.media:
            tokens += media * seen
        return max(0, ceil(tokens))

    def learn(self, count: RequestCount, prompt_tokens: object, cached_tokens: int = 0) -> Lesson:
        """Take in what the upstream reported for a counted request.

        Reports that cannot be are left aside: nothing, far too much, or so little that the upstream
        dropped a part of the prompt, or left out what it had in its cache.
        """
        if count.is_guess:
            return Lesson(self, "guess")
        weights = _weights(count)
        if type(prompt_tokens) is not int or not 0 < prompt_tokens <= _dot(_MOST, weights):
            return Lesson(self, "implausible")
        expected = _dot(self.factors, weights)
        least = self._least(expected, weights)
        if prompt_tokens >= least:
            return Lesson(self._corrected(weights, prompt_tokens), "learned")
        whole = prompt_tokens + cached_tokens
        if cached_tokens > 0 and least <= whole <= 1.4 * expected:
            return Lesson(self._corrected(weights, whole), "learned")
        return self._doubting(weights, prompt_tokens)

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
            factors = Factors(*_numbers(stored["factors"]))
            doubt = tuple(_numbers(row) for row in stored["doubt"])
            noise, lessons = map(float, (stored["noise"], stored["lessons"]))
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            return cls.fresh(text_factor)
        if not (_NOISE <= noise <= _MOST_NOISE and 0 <= lessons < 2**53):
            return cls.fresh(text_factor)
        if factors != factors.bounded() or not _is_covariance(doubt):
            return cls.fresh(text_factor)
        return cls(factors, doubt, noise, int(lessons))

    def _least(self, expected: float, weights: Vector) -> float:
        """Return the least that is believed: media may be far cheaper until that is learned."""
        if weights[_MEDIA]:
            doubtful = 2 * sqrt(self.doubt[_MEDIA][_MEDIA])
            expected -= min(self.factors.media - _LEAST.media, doubtful) * weights[_MEDIA]
        return min(_TRUNCATED_BELOW * expected, expected - _TRUNCATED_TOKENS)

    def _doubting(self, weights: Vector, prompt_tokens: int) -> Lesson:
        """Leave a low report aside, unless low ones keep growing with the requests.

        A server that truncates reports its window again and again; one that needs half the tokens
        reports half, of long requests and short ones, and one that leaves out definitions of tools
        reports so many fewer of each.
        """
        expected = _dot(self.factors, weights)
        doubted = (*self.doubted, (expected, prompt_tokens))[-_REPORTS:]
        if not _grow_along(doubted):
            return Lesson(self._replace(doubted=doubted), "truncated")
        unsure = self._replace(doubt=_DOUBT)
        return Lesson(unsure._corrected(weights, prompt_tokens), "learned")  # noqa: SLF001

    def _corrected(self, weights: Vector, prompt_tokens: int) -> Self:
        """Do one step of the filter; a far miss counts less, several on one side count more."""
        spread = [sum(map(mul, row, weights)) for row in self.doubt]
        unsure = _dot(spread, weights)
        miss = prompt_tokens - _dot(self.factors, weights)
        variance = unsure + (self.noise * prompt_tokens + _NOISE_TOKENS) ** 2
        distance = abs(miss) / sqrt(variance)
        surprises = 0
        if distance > _OUTLIER:
            surprises = self.surprises + (1 if miss > 0 else -1)
            if abs(surprises) >= _SURPRISES:
                again = self._replace(doubt=_DOUBT, surprises=0)
                return again._corrected(weights, prompt_tokens)  # noqa: SLF001
            variance *= (distance / _OUTLIER) ** 2
        step = miss / variance
        factors = [own + step * part for own, part in zip(self.factors, spread, strict=True)]
        unexplained = min(miss**2, variance) - unsure
        return type(self)(
            Factors(*factors).bounded(),
            _reduced(self.doubt, spread, variance),
            self._noisier(unexplained / prompt_tokens**2),
            self.lessons + 1,
            surprises,
        )

    def _noisier(self, seen: float) -> float:
        """Return the noise with what one report showed of it: languages differ between texts."""
        mixed = (1 - _PACE) * self.noise**2 + _PACE * max(0.0, seen)
        return min(_MOST_NOISE, max(_NOISE, sqrt(mixed)))


def _weights(count: RequestCount) -> Vector:
    """Return how much of each kind a request has."""
    return (
        count.text + count.reasoning,
        count.tool_calls + count.tool_results,
        count.tools,
        count.images + count.documents + count.audio + count.video,
        count.overhead,
        1 if count.tools else 0,
        1,
    )


def _dot(left: Iterable[float], right: Iterable[float]) -> float:
    products: Iterable[float] = map(mul, left, right)
    return sum(products)


def _reduced(doubt: Matrix, spread: list[float], variance: float) -> Matrix:
    """Take away what a report has settled, and let what was settled long ago become unsure."""
    rows = []
    for at, row in enumerate(doubt):
        settled = map(mul, spread, repeat(spread[at] / variance))
        rest = [*map(sub, row, settled)]
        if rest[at] < _DOUBT[at][at]:
            rest[at] += _DRIFT[at]
        rows.append(tuple(rest))
    return tuple(rows)


def _grow_along(doubted: tuple[tuple[float, int], ...]) -> bool:
    """Tell whether the reports lie on a line that rises with the estimates."""
    if len(doubted) < _REPORTS:
        return False
    (least, lowest), *_, (most, highest) = ordered = sorted(doubted)
    if most - least < _GROWTH * most:
        return False
    slope = (highest - lowest) / (most - least)
    return slope > _SLOPE and all(
        abs(reported - lowest - slope * (estimate - least)) <= _ASIDE * (highest - lowest)
        for estimate, reported in ordered
    )


def _numbers(values: list[float]) -> Vector:
    """Return one finite number for each kind, or raise ValueError."""
    numbers = tuple(map(float, values))
    if len(numbers) != _KINDS or not all(map(isfinite, numbers)):
        raise ValueError("not a finite number for each kind")
    return numbers


def _is_covariance(matrix: Matrix) -> bool:
    """Tell whether variances are in bounds, both halves are alike, and any mixture has one."""
    return (
        len(matrix) == _KINDS
        and all(matrix[n][n] <= 4 * _DOUBT[n][n] for n in range(_KINDS))
        and all(
            abs(matrix[n][m] - matrix[m][n]) <= 1e-6 * (1 + abs(matrix[n][m]))
            for n in range(_KINDS)
            for m in range(n)
        )
        and _is_positive(matrix)
    )


def _is_positive(matrix: Matrix) -> bool:
    """Tell whether every mixture of kinds has a positive variance, by Cholesky's method."""
    roots: list[list[float]] = []
    for n, row in enumerate(matrix):
        root: list[float] = []
        for m, other in enumerate(roots):
            root.append((row[m] - _dot(root, other)) / other[m])
        rest = row[n] - _dot(root, root)
        if not rest > 0:
            return False
        roots.append([*root, sqrt(rest)])
    return True
