"""One turn of the event loop: tasks that are woken in it do the same things together.

Code that has just run is still in the processor's caches, and a request runs through more of it
than they hold: ten requests that count one behind the other cost less than ten that do everything
one behind the other (docs/decisions/010).
"""

import asyncio
import types
from collections.abc import Callable, Generator


class Turn:
    """Knows who was woken and has not run yet.

    Whoever wakes a task says `wake`, and the task says `run`. One that was cancelled in between
    counts until somebody says `forget`.
    """

    __slots__ = ("_new", "_ran", "_woken")

    def __init__(self) -> None:
        self._woken = 0
        self._ran = 0
        self._new: list[Callable[[], None]] = []

    def wake(self) -> None:
        """Note that a task will run."""
        self._woken += 1

    def run(self) -> None:
        """Note that it runs."""
        self._ran += 1

    def forget(self, woken: int) -> None:
        """Wait for nobody any more who had been woken when so many had been."""
        self._ran = max(self._ran, woken)

    @property
    def is_over(self) -> bool:
        """Whether nobody else is left who has something to do in this turn."""
        return self._woken <= self._ran

    def begin(self, start: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Start something new: at once if nobody is busy, else behind those who go on with theirs.

        What is new is started together, and so comes together to where it counts and sends.
        """
        if self._woken <= self._ran:
            start()
            return
        if not self._new:
            loop.call_soon(self._begin_all)
        self._new.append(start)

    def _begin_all(self) -> None:
        new, self._new = self._new, []
        for start in new:
            start()

    @types.coroutine
    def step(self) -> Generator[None, None, None]:
        """Let all who are woken by now come as far as this; who is alone goes on at once."""
        if self._woken > self._ran:
            self.wake()
            try:
                yield
            finally:
                self.run()
