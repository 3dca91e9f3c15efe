"""A property that is found out when it is asked for first, and is there from then on."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - it reads like `property`
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
