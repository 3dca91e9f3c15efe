"""Telling a server that truncates prompts from one that counts fewer tokens."""

from typing import Final

MIN_LOW_REPORTS: Final = 5
_MIN_RELATIVE_RANGE: Final = 0.1
_MIN_SLOPE: Final = 1 / 3
_MAX_RELATIVE_DEVIATION: Final = 0.1


def lie_on_rising_line(doubted: tuple[tuple[float, int], ...]) -> bool:
    """Return whether the reports lie on a line that rises with the estimates."""
    if len(doubted) < MIN_LOW_REPORTS:
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
