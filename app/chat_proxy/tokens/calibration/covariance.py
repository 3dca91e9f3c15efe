"""The few operations on covariance matrices that the calibration needs."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from math import sqrt
from operator import mul, sub
from typing import Final

Vector = tuple[float, ...]
Matrix = tuple[Vector, ...]

_SYMMETRY: Final = 1e-6


def dot(left: Iterable[float], right: Iterable[float]) -> float:
    """Return the inner product."""
    products: Iterable[float] = map(mul, left, right)
    return sum(products)


def variance_of(matrix: Matrix, counts: Vector) -> float:
    """Return the variance of a sum of values that are counted so often."""
    return dot((dot(row, counts) for row in matrix), counts)


def diagonal(variances: Sequence[float]) -> Matrix:
    """Return the covariance of independent values."""
    size = len(variances)
    return tuple(
        (*repeat(0.0, n), variance, *repeat(0.0, size - n - 1))
        for n, variance in enumerate(variances)
    )


def updated(
    matrix: Matrix, cross: list[float], variance: float, drift: Vector, most: Vector
) -> Matrix:
    """Return the covariance after a report: less uncertainty, plus the drift up to `most`.

    Values that the report says nothing about keep their rows.
    """
    rows = []
    for index, row in enumerate(matrix):
        own = cross[index]
        if not own:
            rows.append(row)
            continue
        rest = [*map(sub, row, map(mul, cross, repeat(own / variance)))]
        if rest[index] < most[index]:
            rest[index] += drift[index]
        rows.append(tuple(rest))
    return tuple(rows)


def loosened(matrix: Matrix, prior: Matrix, counts: Vector) -> Matrix:
    """Return the covariance with its prior in place of what is known of the counted kinds."""
    return tuple(
        tuple(
            prior[n][m] if counts[n] and counts[m] else 0.0 if counts[n] or counts[m] else cell
            for m, cell in enumerate(row)
        )
        for n, row in enumerate(matrix)
    )


def is_covariance(matrix: Matrix, most: Vector) -> bool:
    """Return whether the matrix is symmetric, positive definite and has no variance over `most`."""
    size = len(most)
    return (
        len(matrix) == size
        and all(len(row) == size for row in matrix)
        and all(matrix[n][n] <= most[n] for n in range(size))
        and all(
            abs(matrix[n][m] - matrix[m][n]) <= _SYMMETRY * (1 + abs(matrix[n][m]))
            for n in range(size)
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
            root.append((row[m] - dot(root, other)) / other[m])
        rest = row[n] - dot(root, root)
        if not rest > 0:
            return False
        roots.append([*root, sqrt(rest)])
    return True
