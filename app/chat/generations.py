"""A bounded memory that keeps what is asked for, in as little code and time as can be."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Generations(Generic[V]):
    """Values by key, in two generations: what is asked for again moves to the young one.

    When the young one is full the old one goes. It needs no lock: what a race loses is found out
    anew. Values of different sizes are weighed, and `max_values` is what they weigh together.
    """

    def __init__(self, max_values: int, weigh: Callable[[V], int] | None = None) -> None:
        self._size = max(1, max_values // 2)
        self._weigh = weigh
        self._weight = 0
        self.young: dict[Hashable, V] = {}
        self._old: dict[Hashable, V] = {}

    def __len__(self) -> int:
        return len(self.young) + len(self._old)

    def recall(self, key: Hashable) -> V | None:
        """Return the key's value and keep it for longer."""
        value = self.young.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.remember(key, value)
        return value

    def remember(self, key: Hashable, value: V) -> None:
        """Keep a value, at the expense of those that nobody asked for."""
        weight = len(self.young) if self._weigh is None else self._weight
        if weight >= self._size:
            self._old, self.young, self._weight = self.young, {}, 0
        self.young[key] = value
        if self._weigh is not None:
            self._weight += self._weigh(value)
