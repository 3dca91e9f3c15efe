"""Whether two samples come from one source, by their ranks."""

from math import erfc, sqrt


def chance_of_one_source(first: list[float], second: list[float]) -> float:
    """Return how likely ranks so unequal are by chance (Mann-Whitney, two-sided)."""
    ranked = sorted([(value, 0) for value in first] + [(value, 1) for value in second])
    ranks = sum(rank for rank, (_, kind) in enumerate(ranked, 1) if kind == 0)
    n, m = len(first), len(second)
    surplus = ranks - n * (n + m + 1) / 2
    return erfc(abs(surplus) / sqrt(n * m * (n + m + 1) / 12) / sqrt(2))
