"""Bar charts as SVG, without a library: for each name two bars and a line for the goal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

NAMES, PANEL, GAP = 330, 250, 50
TOP, ROW, BAR = 64, 22, 8
BEFORE, NOW, GOAL = "#cbd5e1", "#2563eb", "#dc2626"


@dataclass(frozen=True, slots=True)
class Bars:
    """Both values of a name, and how large they may be; before is unset if it was not measured."""

    before: float | None
    now: float
    most: float


@dataclass(frozen=True, slots=True)
class Panel:
    """A column of bars; what is longer than the end is cut there and has its figure beside it."""

    title: str
    end: float
    bars: Sequence[Bars]


def svg(names: Sequence[str], panels: Sequence[Panel]) -> str:
    """Return the chart: the names at the left, and the panels beside each other."""
    width = NAMES + len(panels) * (PANEL + GAP)
    height = TOP + ROW * len(names) + 16
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="11">'
        ),
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_legend(),
    ]
    for number, name in enumerate(names):
        parts.append(_text(NAMES - 8, TOP + ROW * number + 14, name, "end"))
    for number, panel in enumerate(panels):
        parts += _panel(panel, NAMES + number * (PANEL + GAP))
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> Iterator[str]:
    for number, (name, colour) in enumerate((("before", BEFORE), ("now", NOW), ("goal", GOAL))):
        yield _bar(12 + 80 * number, 14, 14, colour)
        yield _text(30 + 80 * number, 22, name, "start")


def _panel(panel: Panel, left: float) -> Iterator[str]:
    yield _text(left, TOP - 22, panel.title, "start", 'font-weight="bold"')
    for share in range(5):
        x = left + PANEL * share / 4
        bottom = TOP + ROW * len(panel.bars)
        yield f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}" stroke="#e5e7eb"/>'
        yield _text(x, TOP - 6, f"{panel.end * share / 4:g}", "middle")
    for number, bars in enumerate(panel.bars):
        top = TOP + ROW * number + 2
        if bars.before is not None:
            yield from _value(panel, left, top, bars.before, BEFORE)
        yield from _value(panel, left, top + BAR + 1, bars.now, NOW)
        x = round(left + PANEL * min(1.0, bars.most / panel.end), 1)
        yield f'<line x1="{x}" y1="{top - 1}" x2="{x}" y2="{top + 2 * BAR + 2}" stroke="{GOAL}"/>'


def _value(panel: Panel, left: float, top: float, value: float, colour: str) -> Iterator[str]:
    yield _bar(left, top, round(PANEL * min(1.0, value / panel.end), 1), colour)
    if value > panel.end:
        yield _text(left + PANEL + 4, top + BAR, f"{value:.1f}", "start", 'font-size="9"')


def _bar(x: float, y: float, width: float, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width}" height="{BAR}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {more}>{escape(text)}</text>'
