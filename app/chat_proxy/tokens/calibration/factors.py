"""The unknowns of a calibration, their bounds, and what is assumed before the first report."""

from functools import cache
from operator import le
from typing import Final, NamedTuple

from chat_proxy.tokens.calibration.covariance import Matrix, Vector, diagonal
from chat_proxy.tokens.calibration.vocabularies import COSTS, EXACT, MEASURED, UNKNOWN
from chat_proxy.tokens.counter import RequestCount
from chat_proxy.tokens.scripts import Scripts, by_script


class Factors(NamedTuple):
    """The upstream's tokens per counted token, by script and kind, and the constant parts."""

    latin: float = 1.1
    code: float = 1.1
    digits: float = 1.1
    symbols: float = 1.1
    accented: float = 1.4
    cjk: float = 1.1
    kana: float = 1.1
    hangul: float = 1.2
    cyrillic: float = 1.2
    greek: float = 1.4
    arabic: float = 1.3
    devanagari: float = 1.6
    indic: float = 1.8
    thai: float = 1.3
    other: float = 1.4
    tool_messages: float = 0.0
    """What tool calls and their results cost more than other texts in the same script."""
    result_escapes: float = 0.0
    """What line breaks and quotes in tool results cost more where they are escaped."""
    tools: float = 0.0
    """The same for tool definitions."""
    media: float = 1.0
    cells: float = 0.0
    """Tokens per 28 px cell of an image whose model family is unknown."""
    call_frames: float = 1.0
    """The tokens around tool calls and their results."""
    frames: float = 1.0
    """The tokens that the template adds around each message."""
    preamble: float = 0.0
    """Tokens before the tool definitions, in addition to the assumed ones."""
    unled: float = 0.0
    """Tokens of a template's own instructions, for requests that have none."""
    fixed: float = 0.0

    def bounded(self) -> "Factors":
        """Return the nearest factors within the plausible range."""
        if all(map(le, MIN_FACTORS, self)) and all(map(le, self, MAX_FACTORS)):
            return self
        return Factors(*map(min, MAX_FACTORS, map(max, MIN_FACTORS, self)))


KINDS: Final = len(Factors._fields)
SCRIPTS: Final = len(Scripts._fields)
ASCII: Final = Factors._fields.index("accented")
"""The number of classes of ASCII, which come first."""
MEDIA: Final = Factors._fields.index("media")
CELLS: Final = Factors._fields.index("cells")
TOOLS: Final = Factors._fields.index("tools")

_MIN_SCRIPTS: Final = (0.5, 0.1, 0.4, 0.4, *[0.3] * (SCRIPTS - 4))
_MAX_SCRIPTS: Final = (4.0, 4.0, 4.0, 4.0, *[6.0] * (SCRIPTS - 4))
MIN_FACTORS: Final = Factors._make(
    (*_MIN_SCRIPTS, -0.7, -1.0, -1.2, 0.0, -2.0, -2.0, 0.0, -256.0, -16.0, -4.0)
)
MAX_FACTORS: Final = Factors._make(
    (*_MAX_SCRIPTS, 2.0, 6.0, 3.0, 8.0, 8.0, 6.0, 4.0, 1_024.0, 512.0, 8_192.0)
)

_ASCII_OWN: Final = (0.01, 0.05, 0.15, 0.03)
_SHARED_BY_ASCII: Final = 0.15
"""The part of their uncertainty that all classes of ASCII have in common."""
_FOREIGN: Final = (1.0,) * (SCRIPTS - ASCII)
_KNOWN: Final = Scripts(
    0.04, 0.15, 0.12, 0.10, 0.35, 0.10, 0.12, 0.12, 0.15, 0.15, 0.25, 0.15, 0.30, 0.15, 0.30
)
"""How far a text may be from the known cost of its vocabulary, as a share of it."""
_MEASURED: Final = Scripts(
    0.02, 0.35, 0.10, 0.08, 0.20, 0.08, 0.10, 0.08, 0.10, 0.10, 0.06, 0.06, 0.10, 0.10, 0.20
)
"""The same for texts that are counted in the vocabulary itself, or nearly so."""
NOISES: Final = (0.025,) * ASCII + (0.04,) * (SCRIPTS - ASCII)
"""How far texts of a script scatter around their mean cost, as a share of it."""
_NOISES_MEASURED: Final = (0.008,) * ASCII + (0.04,) * (SCRIPTS - ASCII)
MIN_NOISES: Final = (0.008,) * ASCII + (0.015,) * (SCRIPTS - ASCII)
MAX_NOISE: Final = 0.5
_REST_KNOWN: Final = (0.03, 0.5, 0.16, 0.3, 0.5, 0.5, 0.04, 10_000.0, 225.0, 100.0)
_REST_MEASURED: Final = (0.005, 0.25, 0.02, 0.3, 0.5, 1.0, 0.04, 3_600.0, 64.0, 64.0)
_REST: Final = (0.03, 0.5, 0.16, 0.3, 0.5, 0.5, 0.25, 22_500.0, 225.0, 2_500.0)
DRIFT: Final = Factors._make((*[2e-5] * (KINDS - 4), 5e-6, 0.25, 0.02, 0.05))
"""The variance that each report adds again, because languages and templates change."""


class Prior(NamedTuple):
    """The factors that are assumed before the first report, and their covariance."""

    factors: Factors
    covariance: Matrix
    noises: Vector


@cache
def prior_of(vocabulary: str) -> Prior:
    """Return what is assumed of a vocabulary; of an unknown one little is certain.

    Scripts are independent of each other: a report about Chinese teaches nothing of English. The
    classes of ASCII follow each other in an unknown vocabulary.
    """
    costs = COSTS.get(vocabulary, COSTS[UNKNOWN])
    factors = Factors(*costs)
    if vocabulary not in COSTS or vocabulary == UNKNOWN:
        return Prior(factors, LOOSE, NOISES)
    is_measured = vocabulary in (EXACT, MEASURED)
    shares = _MEASURED if is_measured else _KNOWN
    variances = [(share * cost) ** 2 for share, cost in zip(shares, costs, strict=True)]
    noises = _NOISES_MEASURED if is_measured else NOISES
    rest = _REST_MEASURED if is_measured else _REST_KNOWN
    return Prior(factors, diagonal((*variances, *rest)), noises)


def _loose() -> Matrix:
    rows = [list(row) for row in diagonal((*_ASCII_OWN, *_FOREIGN, *_REST))]
    for one in range(ASCII):
        for other in range(ASCII):
            rows[one][other] += _SHARED_BY_ASCII
    return tuple(map(tuple, rows))


LOOSE: Final = _loose()
"""The covariance of a vocabulary of which nothing is known."""


def counts_by_kind(count: RequestCount) -> Vector:
    """Return what each factor is multiplied with in a request."""
    # Unpacked once: a tuple's field takes long to read, and every request is estimated.
    (
        _, text, reasoning, calls, results, tools, images, documents, audio, video, overhead,
        _, scripts, cells, _, is_led, result_escapes, call_overhead,
    ) = count  # fmt: skip
    words = text + reasoning + calls + results + tools
    return (
        *by_script(scripts, words),
        calls + results,
        result_escapes,
        tools,
        images + documents + audio + video,
        cells,
        call_overhead,
        overhead - call_overhead,
        1 if tools else 0,
        0 if is_led else 1,
        1,
    )
