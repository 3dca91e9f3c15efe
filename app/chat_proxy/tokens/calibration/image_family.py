"""Finding the family of a model by the tokens that it reports for images."""

from typing import Final, NamedTuple

from chat_proxy.tokens.images.formulas import FORMULAS
from chat_proxy.tokens.images.size import Size

MAX_IMAGES: Final = 32

_MIN_REPORTS: Final = 2
_MAX_MISS: Final = 0.05
_TOLERANCE: Final = 0.03
_TOLERANCE_TOKENS: Final = 6.0
_DEVIATIONS: Final = 2.0
_MAX_DEVIATION: Final = 0.4
"""How uncertain a report about images may be, as a share of their tokens."""


_OPEN: Final = ("qwen2-vl", "qwen3-vl", "llama-4", "internvl", "gemma-3", "gemma-4", "llava")
_FAMILIES: Final = tuple(sorted(FORMULAS, key=lambda family: family not in _OPEN))
"""Those of open models first: of two that fit equally well, the first is taken."""
_MAX_RESTARTS: Final = 1


class Candidate(NamedTuple):
    """A family that explains all reports so far, and by how much it misses them."""

    family: str
    misses: float = 0.0


class Search(NamedTuple):
    """The families that are still possible, after some reports about images."""

    candidates: tuple[Candidate, ...] = tuple(map(Candidate, _FAMILIES))
    reports: int = 0
    restarts: int = 0

    def narrowed(self, sizes: tuple[Size, ...], tokens: float, deviation: float) -> "Search":
        """Return the search after images of these sizes cost about so many tokens.

        `deviation` is how uncertain the tokens are, because texts cost some of those reported.
        """
        if not sizes or len(sizes) > MAX_IMAGES or not all(map(all, sizes)) or self.is_over:
            return self
        if deviation > _MAX_DEVIATION * tokens:
            return self
        left = []
        for family, misses in self.candidates:
            expected = sum(FORMULAS[family](size, "") for size in sizes)
            miss = abs(tokens - expected)
            allowed = _TOLERANCE * expected + _TOLERANCE_TOKENS + _DEVIATIONS * deviation
            if miss <= allowed:
                left.append(Candidate(family, misses + miss / expected))
        if not left:
            return Search(restarts=self.restarts + 1)
        return Search(tuple(left), self.reports + 1, self.restarts)

    @property
    def is_over(self) -> bool:
        """Whether no family explains the reports: the model has one of its own."""
        return self.restarts > _MAX_RESTARTS

    @property
    def found(self) -> str | None:
        """The family that explains the reports best; None while they are few or it does badly."""
        if self.reports < _MIN_REPORTS or self.is_over:
            return None
        best = min(self.candidates, key=lambda candidate: candidate.misses)
        return best.family if best.misses <= _MAX_MISS * self.reports else None
