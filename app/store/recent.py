"""A bounded memory of what was used last."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Holds the entries that were used last, up to a weight in all; one weighs 1 unless told."""

    def __init__(self, max_weight: int) -> None:
        self._max_weight = max_weight
        self._weight = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        """Return the entry's value, which counts as using it."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, weight: int = 1) -> bool:
        """Hold a value, forgetting what was used longest ago; one too heavy is not held."""
        self.forget(key)
        if weight > self._max_weight:
            return False
        self._entries[key] = (value, weight)
        self._weight += weight
        while self._weight > self._max_weight:
            self.forget(next(iter(self._entries)))
        return True

    def pop_oldest(self) -> tuple[K, V]:
        """Take out what was used longest ago."""
        key = next(iter(self._entries))
        value, _ = self._entries[key]
        self.forget(key)
        return key, value

    def forget(self, key: K) -> None:
        """Let go of an entry, if it is there."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= entry[1]

    def clear(self) -> None:
        """Let go of all."""
        self._entries.clear()
        self._weight = 0
