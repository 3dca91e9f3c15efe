"""Calibration of token counts against the `prompt_tokens` that an upstream reports.

The unknowns per upstream and model are the real cost of each kind of counted token and a constant
part of every prompt: one tokenizer splits numbers into digits, of which tool results are full, one
template leaves out the ids of calls, another frames a message in two tokens instead of five. A
small Kalman filter estimates them separately, so that an image does not raise the estimated cost of
texts, and a template with a short introduction of tools does not lower it.
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

_MIN_NOISE: Final = 0.02
_NOISE_TOKENS: Final = 4.0
_MAX_NOISE: Final = 0.5
_NOISE_LEARNING_RATE: Final = 0.15
_TRUNCATED_BELOW: Final = 0.6
_TRUNCATED_TOKENS: Final = 256
_MIN_LOW_REPORTS: Final = 5
_MIN_RELATIVE_RANGE: Final = 0.1
_MIN_SLOPE: Final = 1 / 3
_MAX_RELATIVE_DEVIATION: Final = 0.1
_OUTLIER_DEVIATIONS: Final = 3.0
_RESET_AFTER_SURPRISES: Final = 3


class Factors(NamedTuple):
    """The upstream's tokens per counted token, by kind, and the constant tokens of a prompt."""

    text: float = 1.1
    tool_messages: float = 1.1
    """Tool calls and their results."""
    tools: float = 1.1
    """Tool definitions."""
    media: float = 1.0
    frames: float = 1.0
    """The tokens that the template adds around each message."""
    preamble: float = 0.0
    """Tokens before the tool definitions, in addition to the assumed ones."""
    fixed: float = 0.0

    def bounded(self) -> "Factors":
        """Return the nearest factors within the plausible range."""
        if all(map(le, _MIN_FACTORS, self)) and all(map(le, self, _MAX_FACTORS)):
            return self
        return Factors(*map(min, _MAX_FACTORS, map(max, _MIN_FACTORS, self)))


_MIN_FACTORS: Final = Factors(0.5, 0.5, 0.0, 0.5, 0.0, -256.0, -256.0)
_MAX_FACTORS: Final = Factors(4.0, 4.0, 4.0, 4.0, 4.0, 1_024.0, 8_192.0)
_KINDS: Final = len(Factors._fields)
_MEDIA: Final = Factors._fields.index("media")
_INITIAL_COVARIANCE: Final[Matrix] = (
    (0.16, 0.15, 0.15, 0.0, 0.0, 0.0, 0.0),
    (0.15, 0.17, 0.15, 0.0, 0.0, 0.0, 0.0),
    (0.15, 0.15, 0.30, 0.0, 0.0, 0.0, 0.0),
    (0.0, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0),
    (0.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.0),
    (0.0, 0.0, 0.0, 0.0, 0.0, 22_500.0, 0.0),
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 22_500.0),
)
"""The initial uncertainty, as a covariance: the costs of the kinds of text are strongly correlated.

The cost of definitions follows that of texts but is weak evidence for it: a template may have its
own format for them.
"""
_DRIFT: Final = Factors(2e-5, 2e-5, 2e-5, 2e-5, 2e-5, 1.0, 1.0)
"""The variance that each report adds again, because languages and templates change."""


class Lesson(NamedTuple):
    """The result of one report: the new calibration, and whether the report was accepted."""

    calibration: "Calibration"
    verdict: Verdict


class Calibration(NamedTuple):
    """The estimated factors and their covariance.

    `surprises` counts consecutive outliers: positive above the estimate, negative below it.
    """

    factors: Factors = Factors()
    doubt: Matrix = _INITIAL_COVARIANCE
    noise: float = _MIN_NOISE
    """The relative scatter of reports around the best estimate."""
    lessons: int = 0
    surprises: int = 0
    doubted: tuple[tuple[float, int], ...] = ()
    """Estimates and reports of the latest requests that looked truncated."""

    @classmethod
    def fresh(cls, text_factor: float = 1.1) -> Self:
        """Return the calibration that is assumed before the first report."""
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
        """Return the calibration updated with what the upstream reported for a counted request.

        Implausible reports are ignored: zero, far too many tokens, or so few that the upstream
        dropped a part of the prompt or did not count what it had in its cache.
        """
        if count.is_guess:
            return Lesson(self, "guess")
        counts = _counts_by_kind(count)
        if type(prompt_tokens) is not int or not 0 < prompt_tokens <= _dot(_MAX_FACTORS, counts):
            return Lesson(self, "implausible")
        expected = _dot(self.factors, counts)
        fewest = self._fewest_plausible(expected, counts)
        if prompt_tokens >= fewest:
            return Lesson(self._corrected(counts, prompt_tokens), "learned")
        whole = prompt_tokens + cached_tokens
        if cached_tokens > 0 and fewest <= whole <= 1.4 * expected:
            return Lesson(self._corrected(counts, whole), "learned")
        return self._handle_low_report(counts, prompt_tokens)

    def to_json(self) -> str:
        """Serialise the calibration for a store."""
        stored = ("factors", "doubt", "noise", "lessons")
        return json.dumps({name: getattr(self, name) for name in stored})

    @classmethod
    def from_json(cls, text: str | bytes, text_factor: float = 1.1) -> Self:
        """Return the stored calibration, or a fresh one if the text is invalid."""
        try:
            stored = json.loads(text)
            factors = Factors(*_numbers(stored["factors"]))
            doubt = tuple(_numbers(row) for row in stored["doubt"])
            noise, lessons = map(float, (stored["noise"], stored["lessons"]))
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
            return cls.fresh(text_factor)
        if not (_MIN_NOISE <= noise <= _MAX_NOISE and 0 <= lessons < 2**53):
            return cls.fresh(text_factor)
        if factors != factors.bounded() or not _is_covariance(doubt):
            return cls.fresh(text_factor)
        return cls(factors, doubt, noise, int(lessons))

    def _fewest_plausible(self, expected: float, counts: Vector) -> float:
        """Return the fewest plausible tokens; the cost of media may be far lower until learned."""
        if counts[_MEDIA]:
            margin = 2 * sqrt(self.doubt[_MEDIA][_MEDIA])
            expected -= min(self.factors.media - _MIN_FACTORS.media, margin) * counts[_MEDIA]
        return min(_TRUNCATED_BELOW * expected, expected - _TRUNCATED_TOKENS)

    def _handle_low_report(self, counts: Vector, prompt_tokens: int) -> Lesson:
        """Reject a low report, unless low reports grow in proportion to the requests.

        A server that truncates reports its window again and again. One that needs half the tokens
        reports half, for long and short requests; one that leaves out the tool definitions reports
        the same number fewer for each request.
        """
        expected = _dot(self.factors, counts)
        doubted = (*self.doubted, (expected, prompt_tokens))[-_MIN_LOW_REPORTS:]
        if not _lie_on_rising_line(doubted):
            return Lesson(self._replace(doubted=doubted), "truncated")
        reset = self._replace(doubt=_INITIAL_COVARIANCE)
        return Lesson(reset._corrected(counts, prompt_tokens), "learned")  # noqa: SLF001

    def _corrected(self, counts: Vector, prompt_tokens: int) -> Self:
        """Return the calibration after one filter step.

        An outlier counts less; several on the same side reset the covariance, so they count more.
        """
        cross_covariance = [sum(map(mul, row, counts)) for row in self.doubt]
        estimate_variance = _dot(cross_covariance, counts)
        miss = prompt_tokens - _dot(self.factors, counts)
        variance = estimate_variance + (self.noise * prompt_tokens + _NOISE_TOKENS) ** 2
        distance = abs(miss) / sqrt(variance)
        surprises = 0
        if distance > _OUTLIER_DEVIATIONS:
            surprises = self.surprises + (1 if miss > 0 else -1)
            if abs(surprises) >= _RESET_AFTER_SURPRISES:
                reset = self._replace(doubt=_INITIAL_COVARIANCE, surprises=0)
                return reset._corrected(counts, prompt_tokens)  # noqa: SLF001
            variance *= (distance / _OUTLIER_DEVIATIONS) ** 2
        step = miss / variance
        factors = [
            own + step * part for own, part in zip(self.factors, cross_covariance, strict=True)
        ]
        unexplained = min(miss**2, variance) - estimate_variance
        return type(self)(
            Factors(*factors).bounded(),
            _updated_covariance(self.doubt, cross_covariance, variance),
            self._updated_noise(unexplained / prompt_tokens**2),
            self.lessons + 1,
            surprises,
        )

    def _updated_noise(self, relative_variance: float) -> float:
        """Return the noise updated with one report: languages differ between texts."""
        mixed = (1 - _NOISE_LEARNING_RATE) * self.noise**2 + _NOISE_LEARNING_RATE * max(
            0.0, relative_variance
        )
        return min(_MAX_NOISE, max(_MIN_NOISE, sqrt(mixed)))


def _counts_by_kind(count: RequestCount) -> Vector:
    """Return the counted tokens of each kind in a request."""
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


def _updated_covariance(doubt: Matrix, cross_covariance: list[float], variance: float) -> Matrix:
    """Return the covariance after a report: less uncertainty, plus the drift of older values."""
    rows = []
    for index, row in enumerate(doubt):
        explained = map(mul, cross_covariance, repeat(cross_covariance[index] / variance))
        rest = [*map(sub, row, explained)]
        if rest[index] < _INITIAL_COVARIANCE[index][index]:
            rest[index] += _DRIFT[index]
        rows.append(tuple(rest))
    return tuple(rows)


def _lie_on_rising_line(doubted: tuple[tuple[float, int], ...]) -> bool:
    """Return whether the reports lie on a line that rises with the estimates."""
    if len(doubted) < _MIN_LOW_REPORTS:
        return False
    (least, lowest), *_, (most, highest) = ordered = sorted(doubted)
    if most - least < _MIN_RELATIVE_RANGE * most:
        return False
    slope = (highest - lowest) / (most - least)
    return slope > _MIN_SLOPE and all(
        abs(reported - lowest - slope * (estimate - least))
        <= _MAX_RELATIVE_DEVIATION * (highest - lowest)
        for estimate, reported in ordered
    )


def _numbers(values: list[float]) -> Vector:
    """Return one finite number for each kind, or raise ValueError."""
    numbers = tuple(map(float, values))
    if len(numbers) != _KINDS or not all(map(isfinite, numbers)):
        raise ValueError("not a finite number for each kind")
    return numbers


def _is_covariance(matrix: Matrix) -> bool:
    """Return whether the matrix is symmetric, positive definite and within bounds."""
    return (
        len(matrix) == _KINDS
        and all(matrix[n][n] <= 4 * _INITIAL_COVARIANCE[n][n] for n in range(_KINDS))
        and all(
            abs(matrix[n][m] - matrix[m][n]) <= 1e-6 * (1 + abs(matrix[n][m]))
            for n in range(_KINDS)
            for m in range(n)
        )
        and _is_positive(matrix)
    )


def _is_positive(matrix: Matrix) -> bool:
    """Return whether the matrix is positive definite, by Cholesky decomposition."""
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
