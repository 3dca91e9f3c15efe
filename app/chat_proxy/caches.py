"""Bounded caches, and a cached property; each user documents its key, its bound and its tenants."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, Self, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class BoundedDict(dict[K, V]):
    """A dict that drops its oldest entry when it is full.

    For lookups on every request: reading is a plain dict's, and use does not prolong an entry.
    """

    def __init__(self, max_entries: int) -> None:
        super().__init__()
        self._max_entries = max_entries

    def put(self, key: K, value: V) -> None:
        """Set an entry, dropping the oldest one if the dict is full."""
        if len(self) >= self._max_entries and key not in self:
            del self[next(iter(self))]
        self[key] = value


class LruCache(Generic[K, V]):
    """Hold the entries that were used last, up to a total weight; an entry weighs 1 by default."""

    def __init__(self, max_weight: int) -> None:
        self._max_weight = max_weight
        self._weight = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        """Return the entry's value, which counts as use; None without an entry."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, weight: int = 1) -> bool:
        """Hold a value, evicting the least recently used ones; return False if it is too heavy."""
        self.forget(key)
        if weight > self._max_weight:
            return False
        self._entries[key] = (value, weight)
        self._weight += weight
        while self._weight > self._max_weight:
            self.forget(next(iter(self._entries)))
        return True

    def pop_oldest(self) -> tuple[K, V]:
        """Remove and return the least recently used entry."""
        key = next(iter(self._entries))
        value, _ = self._entries[key]
        self.forget(key)
        return key, value

    def forget(self, key: K) -> None:
        """Remove an entry, if there is one."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= entry[1]

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._weight = 0


class GenerationCache(Generic[V]):
    """Values by key in two generations: a value that is read again moves to the young one.

    When the young generation is full the old one is dropped. It needs no lock, unlike an LRU cache
    that threads share: what a race loses is computed again. With `weigh`, `max_values` bounds the
    total weight of the values.
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
        """Return the key's value, None without one; it stays longer."""
        value = self.young.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.remember(key, value)
        return value

    def remember(self, key: Hashable, value: V) -> None:
        """Keep a value, dropping values that were not read for long."""
        weight = len(self.young) if self._weigh is None else self._weight
        if weight >= self._size:
            self._old, self.young, self._weight = self.young, {}, 0
        self.young[key] = value
        if self._weigh is not None:
            self._weight += self._weigh(value)


class cached_once(Generic[T]):  # noqa: N801 - it reads like `property`
    """Like `functools.cached_property`, without the lock that it has before Python 3.12.

    That lock is one for all instances: a large request in a thread would block the event loop. Two
    threads may both compute a value, and get the same.
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
        """Return the value; the instance holds it from now on."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._find(instance)
        return value
