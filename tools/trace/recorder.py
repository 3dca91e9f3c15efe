"""Note the calls of a package's functions in the tasks that answer requests."""

import asyncio
import sys
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

REQUEST_TASK = "request"


class Recorder:
    """Records calls in the current thread until the block ends."""

    def __init__(self, package: Path) -> None:
        self._root = f"{package}/"
        self.path: list[str] = []

    @property
    def files(self) -> set[str]:
        """The distinct files."""
        return set(self.path)

    @property
    def changes(self) -> int:
        """How often a call was in another file than the call before."""
        return max(0, len(self.path) - 1)

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        places: TracebackType | None,
    ) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(self._root):
            return
        task = asyncio.current_task()
        if task is None or task.get_name() != REQUEST_TASK:
            return
        name = file.removeprefix(self._root)
        if not self.path or self.path[-1] != name:
            self.path.append(name)
