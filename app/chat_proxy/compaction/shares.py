"""Divide a room between sizes."""

from collections.abc import Iterable


def fair_share(sizes: Iterable[int], room: int) -> int:
    """Return the largest share so that all sizes, cut to it, fit the room together."""
    ordered = sorted(sizes)
    for rank, size in enumerate(ordered):
        share = room // (len(ordered) - rank)
        if size > share:
            return share
        room -= size
    return ordered[-1] if ordered else 0
