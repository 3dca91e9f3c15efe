"""Image tokens by size, from the rules that vendors and model code publish."""

from collections.abc import Callable
from functools import partial
from math import ceil, floor, sqrt
from typing import Final

from chat_proxy.tokens.images.size import Size

Formula = Callable[[Size, str], int]
"""Maps size and detail (empty if unknown) to tokens."""

_EPSILON: Final = 1e-9  # so that ceil() ignores a rounding error above a whole number


def tiles(size: Size, detail: str, *, base: int, tile: int) -> int:
    """Apply OpenAI's older rule: scale to fit 2048², short side to 768, then 512 px tiles."""
    if detail == "low":
        return base
    width, height = _fit(size, 2048)
    scale = min(1.0, 768 / min(width, height))
    return base + tile * _cells(width * scale, 512) * _cells(height * scale, 512)


def patches(
    size: Size, detail: str, *, multiplier: float = 1.0, budget: int = 6_144, side: int = 2_048
) -> int:
    """Apply OpenAI's newer rule: 32 px patches within a side limit and a budget, times a factor.

    Where two budgets were published the larger one is the default: too low a count could exceed
    the window.
    """
    width, height = _fit(size, 512 if detail == "low" else side)
    count = _cells(width, 32) * _cells(height, 32)
    if count > budget:
        scale = sqrt(1024 * budget / (width * height))
        columns, rows = width * scale / 32, height * scale / 32
        scale *= min(max(1, floor(part)) / part for part in (columns, rows))
        count = min(budget, _cells(width * scale, 32) * _cells(height * scale, 32))
    return ceil(count * multiplier - _EPSILON)


def chosen(size: Size, detail: str, *, usual: Formula, named: dict[str, Formula]) -> int:
    """Apply the model's rule for this detail, else its usual rule."""
    return named.get(detail, usual)(size, detail)


def claude(size: Size, detail: str, *, side: int, limit: int) -> int:  # noqa: ARG001
    """Count 28 px cells of the largest scale within both limits; the API has no detail."""
    width, height = size
    scale = min(1.0, side / max(size), sqrt(limit * 784 / (width * height)))
    columns, rows = _cells(width * scale, 28), _cells(height * scale, 28)
    while columns * rows > limit:
        scale = max((columns - 1) * 28 / width, (rows - 1) * 28 / height)
        columns, rows = _cells(width * scale, 28), _cells(height * scale, 28)
    return columns * rows


def gemini_2(size: Size, detail: str) -> int:  # noqa: ARG001
    """Count 258 for a small image, else 258 for each tile of two thirds of the short side."""
    if max(size) <= 384:
        return 258
    unit = max(256, floor(min(size) / 1.5))
    return 258 * min(64, _cells(size.width, unit) * _cells(size.height, unit))


def flat(size: Size, detail: str, *, tokens: int) -> int:  # noqa: ARG001
    """Return the same tokens for every image."""
    return tokens


def by_detail(size: Size, detail: str, *, costs: dict[str, int], default: int) -> int:  # noqa: ARG001
    """Return the tokens for the detail, regardless of the size."""
    return costs.get(detail, default)


def qwen(size: Size, detail: str, *, factor: int, least: int, most: int) -> int:  # noqa: ARG001
    """Count cells after `smart_resize` between two areas, plus the start and end tokens."""
    width, height = size
    columns, rows = round(width / factor), round(height / factor)
    if columns * rows * factor**2 > most:
        shrink = sqrt(width * height / most)
        columns = max(1, floor(width / shrink / factor))
        rows = max(1, floor(height / shrink / factor))
    elif columns * rows * factor**2 < least:
        grow = sqrt(least / (width * height))
        columns, rows = ceil(width * grow / factor), ceil(height * grow / factor)
    return min(columns * rows, most // factor**2) + 2


def llama_4(size: Size, detail: str) -> int:  # noqa: ARG001
    """Count 144 for each 336 px tile of the best canvas and for the overview, with separators."""
    count = _best_canvas(size)
    return 147 if count == 1 else 145 * count + 147


def internvl(size: Size, detail: str) -> int:  # noqa: ARG001
    """Count 256 for each 448 px tile of the grid nearest in aspect ratio, and for the thumbnail."""
    aspect, area = size.width / size.height, size.width * size.height
    best, nearest = 1, float("inf")
    for columns, rows in _INTERNVL_GRIDS:
        distance = abs(aspect - columns / rows)
        if distance < nearest:
            best, nearest = columns * rows, distance
        elif distance == nearest and area > 0.5 * 448**2 * columns * rows:
            best = columns * rows
    return 256 * (best + (best > 1)) + 2


def _best_canvas(size: Size) -> int:
    """Return the tiles of the canvas that enlarges least, else shrinks least; ties: the smaller."""
    scales = [
        (min(336 * columns / size.width, 336 * rows / size.height), columns * rows)
        for columns, rows in _LLAMA_4_GRIDS
    ]
    enlarging = [(scale, count) for scale, count in scales if scale >= 1]
    if enlarging:
        return min(enlarging)[1]
    return min((-scale, count) for scale, count in scales)[1]


def _fit(size: Size, side: int) -> tuple[float, float]:
    scale = min(1.0, side / max(size))
    return size.width * scale, size.height * scale


def _cells(length: float, cell: int) -> int:
    return max(1, ceil(length / cell - _EPSILON))


def _grids(max_cells: int) -> list[tuple[int, int]]:
    """Return every grid (columns, rows) of at most `max_cells` cells, smallest first."""
    sides = range(1, max_cells + 1)
    grids = [(columns, rows) for columns in sides for rows in sides if columns * rows <= max_cells]
    return sorted(grids, key=lambda grid: grid[0] * grid[1])


_LLAMA_4_GRIDS: Final = _grids(16)
_INTERNVL_GRIDS: Final = _grids(12)

_GPT_4O: Final = partial(tiles, base=85, tile=170)
_O_SERIES: Final = partial(tiles, base=75, tile=150)
_MINI: Final = partial(patches, multiplier=1.62)
_NANO: Final = partial(patches, multiplier=2.46)
_HIGH: Final = partial(patches, budget=2_500)
_ORIGINAL: Final = partial(patches, budget=10_000, side=6_000)

FORMULAS: Final[dict[str, Formula]] = {
    "gpt-4o": _GPT_4O,
    "gpt-4.1": _GPT_4O,
    "gpt-4.5": _GPT_4O,
    "gpt-4o-mini": partial(tiles, base=2_833, tile=5_667),
    "o1": _O_SERIES,
    "o3": _O_SERIES,
    "gpt-5": partial(tiles, base=70, tile=140),
    "computer-use-preview": partial(tiles, base=65, tile=129),
    "gpt-4.1-mini": _MINI,
    "gpt-4.1-nano": _NANO,
    "gpt-5-mini": _MINI,
    "gpt-5-nano": _NANO,
    "o4-mini": partial(patches, multiplier=1.72),
    "gpt-5.2": patches,
    "gpt-5.4": partial(chosen, usual=_HIGH, named={"original": _ORIGINAL}),
    "gpt-5.4-mini": _MINI,
    "gpt-5.4-nano": _NANO,
    "gpt-5.5": partial(chosen, usual=_ORIGINAL, named={"high": _HIGH}),
    "gpt-5.6": partial(
        chosen,
        usual=partial(patches, multiplier=1.2, budget=30_000, side=1_000_000),
        named={"high": partial(_HIGH, multiplier=1.2)},
    ),
    "claude": partial(claude, side=1_568, limit=1_568),
    "claude-high-res": partial(claude, side=2_576, limit=4_784),
    "gemini-2": gemini_2,
    "gemini-3": partial(
        by_detail, costs={"low": 280, "medium": 560, "ultra_high": 2_240}, default=1_120
    ),
    "qwen2-vl": partial(qwen, factor=28, least=3_136, most=12_845_056),
    "qwen3-vl": partial(qwen, factor=32, least=65_536, most=16_777_216),
    "llama-4": llama_4,
    "internvl": internvl,
    "gemma-3": partial(flat, tokens=256),
    "gemma-4": partial(flat, tokens=280),
    "llava": partial(flat, tokens=576),
}
