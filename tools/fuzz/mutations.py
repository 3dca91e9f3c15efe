"""Inputs like those that are kept, and never quite: for runs without coverage to guide them."""

from collections.abc import Iterator
from itertools import islice
from random import Random

from tools.fuzz.targets import Target

LONGEST = 4_096


def inputs_for(target: Target, seed: int, count: int) -> Iterator[bytes]:
    """Yield the target's seeds, and then so many mutations of them."""
    seeds = target.seeds()
    yield from seeds
    yield from islice(mutations_of(seeds, target.words(), Random(seed)), count)


def mutations_of(seeds: list[bytes], words: list[bytes], random: Random) -> Iterator[bytes]:
    """Yield mutations without end: each is a seed with a few changes."""
    while True:
        data = random.choice(seeds)
        for _ in range(random.randint(1, 6)):
            data = _changed(data, random.choice(seeds), words, random)
        yield data[:LONGEST]


def _changed(data: bytes, other: bytes, words: list[bytes], random: Random) -> bytes:
    start = random.randint(0, len(data))
    end = min(len(data), start + random.choice((0, 1, 1, 4, 32)))
    there = random.randint(0, len(other))
    kinds = (
        random.choice(words),
        random.randbytes(random.randint(1, 3)),
        bytes([data[start] ^ (1 << random.randrange(8))]) if start < len(data) else b"",
        other[there : there + random.choice((1, 8, 64))],
        data[start:end] * 2,
        b"",
    )
    return data[:start] + random.choice(kinds) + data[end:]
