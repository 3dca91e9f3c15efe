"""A bounded memory of what was used last."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, Self, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")


class RecentCache(Generic[K, V]):
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


class GenerationCache(Generic[V]):
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


T = TypeVar("T")


class cached_once(Generic[T]):  # noqa: N801 - it reads like `property`
    """Like `cached_property` without its lock, which every request would pay for before 3.12.

    Two threads that ask at the same time may both find it out, and find the same.
    """

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find = find
        self.__doc__ = find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object, owner: type) -> T | Self:
        """Return the value; the instance holds it, so this is not asked again."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._find(instance)
        return value
