"""What a run found: figures, and whether they are what is wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class Finding:
    """One figure; without a wish it is only told."""

    what: str
    figure: str
    wanted: str = ""
    holds: bool = True


def none_of(what: str, number: float, beside: str = "") -> Finding:
    """Something that must not happen."""
    return Finding(what, f"{number:g}{beside}", "0", number == 0)


def at_least(what: str, number: float, least: float, unit: str = "") -> Finding:
    """A figure that must be so large."""
    return Finding(what, f"{number:g}{unit}", f"≥ {least:g}{unit}", number >= least)


def below(what: str, share: float, most: float) -> Finding:
    """A share that must stay under a limit."""
    return Finding(what, f"{share:.2%}", f"< {most:.0%}", share < most)


def told(what: str, figure: object) -> Finding:
    """A figure that nothing is wanted of."""
    return Finding(what, str(figure))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that so large a share does not exceed."""
    return sorted(values)[ceil(share * len(values)) - 1]
