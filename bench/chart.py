"""Line charts as SVG, without a library: one colour for each line, axes logarithmic or not."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 48, 60
STEPS = 5
COLOURS = (
    *("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#475569"),
    *("#0891b2", "#be185d", "#65a30d"),
)


@dataclass(frozen=True, slots=True)
class Chart:
    """What a chart shows; on logarithmic axes values must be positive."""

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Points]
    is_linear: bool = False

    def svg(self) -> str:
        """Return the chart."""
        scale = _LinearScale if self.is_linear else _Scale
        x_scale = scale(
            [x for points in self.lines.values() for x, _ in points], LEFT, WIDTH - RIGHT
        )
        y_scale = scale(
            [y for points in self.lines.values() for _, y in points], HEIGHT - BOTTOM, TOP
        )
        parts = [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
                'font-family="sans-serif" font-size="12">'
            ),
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            _text(WIDTH / 2, 20, self.title, "middle", 'font-size="15" font-weight="bold"'),
            _text(WIDTH / 2, HEIGHT - 12, self.x_label, "middle"),
            _text(16, TOP - 12, self.y_label, "start"),
            *_grid(x_scale, y_scale),
        ]
        for number, (name, points) in enumerate(self.lines.items()):
            parts += _line(number, name, points, x_scale, y_scale)
        return "\n".join([*parts, "</svg>", ""])


class _Scale:
    """Maps values to places, by whole powers of ten."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self._low = floor(log10(min(values)) + 1e-9)
        self._high = max(self._low + 1, ceil(log10(max(values)) - 1e-9))
        self._start = start
        self._end = end

    def at(self, value: float) -> float:
        share = (log10(value) - self._low) / (self._high - self._low)
        return round(self._start + share * (self._end - self._start), 1)

    @property
    def marks(self) -> list[float]:
        return [10.0**power for power in range(self._low, self._high + 1)]


class _LinearScale(_Scale):
    """Maps values to places in proportion, by five or so steps of a round number."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        span = (max(values) - min(values)) or 1.0
        power = 10.0 ** floor(log10(span / STEPS))
        self._step = next(it * power for it in (1, 2, 5, 10) if it * power >= span / STEPS)
        self._low = floor(min(values) / self._step)
        self._high = max(self._low + 1, ceil(max(values) / self._step))
        self._start = start
        self._end = end

    def at(self, value: float) -> float:
        share = (value / self._step - self._low) / (self._high - self._low)
        return round(self._start + share * (self._end - self._start), 1)

    @property
    def marks(self) -> list[float]:
        return [number * self._step for number in range(self._low, self._high + 1)]


def _grid(x_scale: _Scale, y_scale: _Scale) -> Iterator[str]:
    for mark in x_scale.marks:
        x = x_scale.at(mark)
        yield f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - BOTTOM}" stroke="#e5e7eb"/>'
        yield _text(x, HEIGHT - BOTTOM + 18, f"{mark:,g}", "middle")
    for mark in y_scale.marks:
        y = y_scale.at(mark)
        yield f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#e5e7eb"/>'
        yield _text(LEFT - 8, y + 4, f"{mark:,g}", "end")


def _line(
    number: int, name: str, points: Points, x_scale: _Scale, y_scale: _Scale
) -> Iterator[str]:
    colour = COLOURS[number % len(COLOURS)]
    places = [(x_scale.at(x), y_scale.at(y)) for x, y in points]
    path = " ".join(f"{x},{y}" for x, y in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for x, y in places:
        yield f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>'
    place = TOP + 16 + 18 * number
    yield f'<rect x="{LEFT + 12}" y="{place - 9}" width="14" height="4" fill="{colour}"/>'
    yield _text(LEFT + 32, place - 3, name, "start")


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {more}>{escape(text)}</text>'
