"""Calibration of token counts against the `prompt_tokens` that an upstream reports.

The unknowns per upstream and model are the real cost of each script class in its vocabulary, of
each kind of counted token, and a constant part of every prompt: one tokenizer splits numbers into
digits, one needs three times the tokens for Hindi, one template leaves out the ids of calls,
another frames a message in two tokens instead of five. A small Kalman filter estimates them
separately, so that Chinese texts do not raise the estimated cost of English ones, nor images that
of texts.
"""

import json
from math import sqrt
from operator import mul
from typing import Final, Literal, NamedTuple, Self

from chat_proxy.tokens.calibration.covariance import (
    Matrix,
    Vector,
    dot,
    loosened,
    updated,
    variance_of,
)
from chat_proxy.tokens.calibration.factors import (
    ASCII,
    CELLS,
    DRIFT,
    KINDS,
    LOOSE,
    MAX_FACTORS,
    MAX_NOISE,
    MEDIA,
    MIN_NOISES,
    NOISES,
    SCRIPTS,
    Factors,
    counts_by_kind,
    prior_of,
)
from chat_proxy.tokens.calibration.image_family import Search
from chat_proxy.tokens.calibration.low_reports import MIN_LOW_REPORTS, lie_on_rising_line
from chat_proxy.tokens.calibration.stored_form import read_stored, stored_fields, version_of
from chat_proxy.tokens.calibration.vocabularies import MEASURED, UNKNOWN
from chat_proxy.tokens.counter import RequestCount

Verdict = Literal["learned", "truncated", "implausible", "guess"]

_NOISE_TOKENS: Final = 1.0
_NOISE_OF_OTHERS: Final = 0.025
"""The relative scatter of what is no text: media and frames."""
_NOISE_LEARNING_RATE: Final = 0.15
_TRUNCATED_BELOW: Final = 0.6
_TRUNCATED_TOKENS: Final = 256
_OUTLIER_DEVIATIONS: Final = 3.0
_SURPRISE: Final = 2
_MOST_SURPRISES: Final = 4
"""The third outlier in a row is believed, and the fourth of every second report."""
_LOOSE_VARIANCE: Final = tuple(LOOSE[n][n] for n in range(KINDS))
_MAY_COST_LITTLE: Final = (*range(ASCII, SCRIPTS), MEDIA, CELLS)
"""The kinds whose real cost may be far lower until it is learned."""


class Lesson(NamedTuple):
    """The result of one report: the new calibration, and whether the report was accepted."""

    calibration: "Calibration"
    verdict: Verdict


class Calibration(NamedTuple):
    """The estimated factors and their covariance.

    `surprises` grows with every outlier and shrinks with every other report.
    """

    factors: Factors = Factors()
    doubt: Matrix = LOOSE
    noises: Vector = NOISES
    """The relative scatter of reports around the best estimate, by script class."""
    lessons: int = 0
    surprises: int = 0
    doubted: tuple[tuple[float, int], ...] = ()
    """Estimates and reports of the latest requests that looked truncated."""
    image_search: Search = Search()
    image_family: str | None = None
    """The family that reports about images show, where the model's name shows none."""
    prior: str = UNKNOWN
    """The vocabulary that was assumed at first; what was learned holds for counts in it."""
    vocabulary: str | None = None
    """The vocabulary that the engine's own tokenizer shows; it has priority over the name's."""

    @classmethod
    def fresh(cls, prior: str = UNKNOWN, vocabulary: str | None = None) -> Self:
        """Return the calibration that is assumed before the first report."""
        factors, covariance, noises = prior_of(prior if vocabulary is None else MEASURED)
        return cls(factors, covariance, noises, prior=prior, vocabulary=vocabulary)

    def in_vocabulary(self, vocabulary: str | None) -> Self:
        """Return a calibration that knows nothing yet but its vocabulary, and of images the same.

        What was learned from counts in another vocabulary does not hold for counts in this one.
        """
        return self.fresh(self.prior, vocabulary)._replace(
            image_search=self.image_search, image_family=self.image_family
        )

    def counts_like(self, other: "Calibration") -> bool:
        """Return whether both belong to counts in the same vocabulary."""
        return (self.prior, self.vocabulary) == (other.prior, other.vocabulary)

    def estimate(self, count: RequestCount) -> int:
        """Return the prompt's tokens as the upstream would count them, never 0.

        A message has at least one token besides half of its counted text.
        """
        least = count.text // 2 + max(1, len(count.profiles))
        return max(round(dot(self.factors, counts_by_kind(count))), least)

    def relative_variance(self, count: RequestCount) -> float:
        """Return how uncertain the estimate of a request is, as the square of a share of it."""
        counts = counts_by_kind(count)
        expected = max(1.0, dot(self.factors, counts))
        return variance_of(self.doubt, counts) / expected**2

    def learn(self, count: RequestCount, prompt_tokens: object, cached_tokens: int = 0) -> Lesson:
        """Return the calibration updated with what the upstream reported for a counted request.

        Implausible reports are ignored: zero, far too many tokens, or so few that the upstream
        dropped a part of the prompt or did not count what it had in its cache. So is the count of
        images that were counted before their family was found.
        """
        is_outdated = count.image_cells > 0 and self.image_family is not None
        if count.is_guess or is_outdated:
            return Lesson(self, "guess")
        counts = counts_by_kind(count)
        if type(prompt_tokens) is not int or not 0 < prompt_tokens <= dot(MAX_FACTORS, counts):
            return Lesson(self, "implausible")
        expected = dot(self.factors, counts)
        fewest = self._fewest_plausible(expected, counts)
        if count.image_sizes:
            fewest = min(fewest, dot(self.factors, counts_by_kind(_texts_of(count))))
        if prompt_tokens >= fewest:
            corrected = self._corrected(counts, prompt_tokens)
            if count.image_sizes and not self.image_search.is_over:
                corrected = self._with_family(corrected, count, prompt_tokens)
            return Lesson(corrected, "learned")
        whole = prompt_tokens + cached_tokens
        if cached_tokens > 0 and fewest <= whole <= 1.4 * expected:
            return Lesson(self._corrected(counts, whole), "learned")
        return self._handle_low_report(counts, prompt_tokens)

    def learn_exactly(self, count: RequestCount, tokens: int) -> Self:
        """Return the calibration updated with an engine's own count, which is no outlier."""
        counts = counts_by_kind(count)
        if count.is_guess or not 0 < tokens <= dot(MAX_FACTORS, counts):
            return self
        return self._corrected(counts, tokens, is_believed=True)

    def to_json(self) -> str:
        """Serialise the calibration for a store."""
        names = stored_fields(self.vocabulary)
        version = version_of(self.vocabulary)
        return json.dumps({"version": version} | {name: getattr(self, name) for name in names})

    @classmethod
    def from_json(cls, text: str | bytes, expected_prior: str = UNKNOWN) -> Self:
        """Return the stored calibration; a fresh one if it is invalid, old or of other counts."""
        stored = read_stored(text, expected_prior)
        if stored is None:
            return cls.fresh(expected_prior)
        factors, doubt, noises, lessons, family, vocabulary = stored
        return cls(
            factors,
            doubt,
            noises,
            lessons,
            image_family=family,
            prior=expected_prior,
            vocabulary=vocabulary,
        )

    def _fewest_plausible(self, expected: float, counts: Vector) -> float:
        """Return the fewest plausible tokens: what is not learned yet may cost far less."""
        unsure = [(n, counts[n]) for n in _MAY_COST_LITTLE if counts[n]]
        if unsure:
            variance = sum(self.doubt[n][m] * one * two for n, one in unsure for m, two in unsure)
            cost = sum(self.factors[n] * tokens for n, tokens in unsure)
            expected -= min(max(0.0, cost), 2 * sqrt(max(0.0, variance)))
        return min(_TRUNCATED_BELOW * expected, expected - _TRUNCATED_TOKENS)

    def _handle_low_report(self, counts: Vector, prompt_tokens: int) -> Lesson:
        """Reject a low report, unless low reports grow in proportion to the requests.

        A server that truncates reports its window again and again. One that needs half the tokens
        reports half, for long and short requests; one that leaves out the tool definitions reports
        the same number fewer for each request.
        """
        expected = dot(self.factors, counts)
        doubted = (*self.doubted, (expected, prompt_tokens))[-MIN_LOW_REPORTS:]
        if not lie_on_rising_line(doubted):
            return Lesson(self._replace(doubted=doubted), "truncated")
        reset = self._replace(doubt=loosened(self.doubt, LOOSE, counts))
        return Lesson(reset._corrected(counts, prompt_tokens, is_believed=True), "learned")  # noqa: SLF001

    def _corrected(self, counts: Vector, prompt_tokens: int, *, is_believed: bool = False) -> Self:
        """Return the calibration after one filter step.

        An outlier counts less; several reset the covariance of the kinds that the request has, so
        they count more. The first report of all is believed: nothing contradicts it.
        """
        cross_covariance = [dot(row, counts) for row in self.doubt]
        estimate_variance = dot(cross_covariance, counts)
        expected = dot(self.factors, counts)
        miss = prompt_tokens - expected
        texts = [*map(mul, self.factors[:SCRIPTS], counts)]
        others = max(0.0, min(expected, prompt_tokens) - sum(texts))
        noise = dot(self.noises, texts) + _NOISE_OF_OTHERS * others + _NOISE_TOKENS
        variance = estimate_variance + noise**2
        distance = abs(miss) / sqrt(variance)
        surprises = max(0, self.surprises - 1)
        if distance > _OUTLIER_DEVIATIONS and self.lessons and not is_believed:
            surprises = self.surprises + _SURPRISE
            if surprises > _MOST_SURPRISES:
                reset = self._replace(doubt=loosened(self.doubt, LOOSE, counts), surprises=0)
                return reset._corrected(counts, prompt_tokens, is_believed=True)  # noqa: SLF001
            variance *= (distance / _OUTLIER_DEVIATIONS) ** 2
        step = miss / variance
        factors = [
            own + step * part for own, part in zip(self.factors, cross_covariance, strict=True)
        ]
        unexplained = min(miss**2, variance) - estimate_variance
        return self._replace(
            factors=Factors(*factors).bounded(),
            doubt=updated(self.doubt, cross_covariance, variance, DRIFT, _LOOSE_VARIANCE),
            noises=self._updated_noises(texts, unexplained),
            lessons=self.lessons + 1,
            surprises=surprises,
            doubted=(),
        )

    def _with_family(self, corrected: Self, count: RequestCount, prompt_tokens: int) -> Self:
        """Return the corrected calibration with the model family that its images show, if any.

        What is known of texts tells what the images cost. The factors that were learned for images
        of an unknown family do not apply to a known one.
        """
        counts = counts_by_kind(_texts_of(count))
        tokens = prompt_tokens - dot(self.factors, counts)
        deviation = sqrt(max(0.0, variance_of(self.doubt, counts)))
        search = self.image_search.narrowed(count.image_sizes, tokens, deviation)
        family = None if search.is_over else search.found or self.image_family
        if family == self.image_family:
            return corrected._replace(image_search=search)
        images_only = [0.0] * KINDS
        images_only[MEDIA] = images_only[CELLS] = 1.0
        return corrected._replace(
            factors=corrected.factors._replace(media=1.0, cells=0.0),
            doubt=loosened(corrected.doubt, LOOSE, tuple(images_only)),
            image_search=search,
            image_family=family,
        )

    def _updated_noises(self, texts: list[float], unexplained: float) -> Vector:
        """Return the noises with that of the request's main script updated by one report."""
        most = max(texts)
        if most <= 0:
            return self.noises
        main = texts.index(most)
        new = max(0.0, unexplained) / most**2
        mixed = (1 - _NOISE_LEARNING_RATE) * self.noises[main] ** 2 + _NOISE_LEARNING_RATE * new
        noises = [*self.noises]
        noises[main] = min(MAX_NOISE, max(MIN_NOISES[main], sqrt(mixed)))
        return tuple(noises)


def _texts_of(count: RequestCount) -> RequestCount:
    """Return the count without the images, whose tokens are uncertain."""
    return count._replace(images=0, image_cells=0)
