"""The archive's folders: accessed by descriptor, never through links, private to their owner."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from chat_proxy.store.base import CLOCK_SLACK

DIALOG = "dialog"
RESULTS = "tool_result"
DRAFT = ".draft"
CHUNK_BYTES = 256 * 1024
POLL_SECONDS = 0.01

_SAFE_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Entry:
    """A file with its size and the time of its last write."""

    name: str
    size: int
    at: float


class Folder:
    """The regular files of one folder; links and everything else in it are ignored."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def entries(self) -> list[Entry]:
        """Return all files, drafts included, sorted by name."""
        found = (self.entry(name) for name in self._names())
        return [entry for entry in found if entry]

    def entry(self, name: str) -> Entry | None:
        """Return the file of this name, if there is one."""
        try:
            found = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        return Entry(name, found.st_size, found.st_mtime)

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the complete lines of a file."""
        if self.entry(name) is None:
            return
        with (
            self._opened(name, os.O_RDONLY) as descriptor,
            os.fdopen(descriptor, "rb", closefd=False) as file,
        ):
            yield from (line for line in file if line.endswith(b"\n"))

    def count_lines(self, name: str) -> int:
        """Return the number of lines; a few hundred megabytes take less than a second."""
        count = 0
        with self._opened(name, os.O_RDONLY) as descriptor:
            while chunk := os.read(descriptor, CHUNK_BYTES):
                count += chunk.count(b"\n")
        return count

    def append(self, name: str, text: bytes, at: float) -> None:
        """Append whole lines, all or none of them, after the last complete line."""
        with self._opened(name, os.O_RDWR | os.O_CREAT | os.O_APPEND) as descriptor:
            end = _cut_partial_line(descriptor)
            try:
                _write(descriptor, [text], at)
            except OSError:
                os.ftruncate(descriptor, end)
                raise
        if end == 0:
            os.fsync(self._descriptor)

    def replace(self, name: str, texts: Iterable[bytes], at: float) -> None:
        """Replace a file atomically: readers find the old content or the whole new content."""
        draft = f"{name}{DRAFT}"
        self.remove(draft)
        try:
            with self._opened(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
                _write(descriptor, texts, at)
            os.rename(draft, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except OSError:
            self.remove(draft)
            raise
        os.fsync(self._descriptor)

    def touch(self, name: str, at: float) -> None:
        """Set the time of a file's last write."""
        os.utime(name, (at, at), dir_fd=self._descriptor, follow_symlinks=False)

    def fix_future_times(self, now: float) -> None:
        """Set files that a wrong clock dated far in the future to now; else they never expire."""
        for entry in self.entries():
            if entry.at > now + CLOCK_SLACK:
                self.touch(entry.name, now)

    def remove(self, name: str) -> None:
        """Delete the file or link of this name, if there is one."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def remove_drafts(self) -> None:
        """Delete the drafts of killed processes; the caller must hold the lock."""
        for name in self._names():
            if name.endswith(DRAFT):
                self.remove(name)

    def _names(self) -> list[str]:
        with os.scandir(self._descriptor) as found:
            return sorted(item.name for item in found)

    @contextmanager
    def _opened(self, name: str, flags: int) -> Iterator[int]:
        """Open a regular file that has no other hard link."""
        descriptor = os.open(name, flags | _SAFE_FLAGS, 0o600, dir_fd=self._descriptor)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                raise OSError(errno.EPERM, "not a file of the archive")
            yield descriptor
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Folders:
    """The folder of conversations and the folder of tool results."""

    dialog: Folder
    results: Folder

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(entry.size for folder in self.both for entry in folder.entries())

    @property
    def both(self) -> tuple[Folder, Folder]:
        """Both folders."""
        return self.dialog, self.results


@contextmanager
def alone_in_archive(root: Path, wait_seconds: float) -> Iterator[Folders]:
    """Create the folders and hold their lock, or raise OSError."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _closing(os.open(root, _FOLDER_FLAGS)) as top:
        for name in (DIALOG, RESULTS):
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=top)
        with _opened_folder(top, DIALOG) as dialog, _opened_folder(top, RESULTS) as results:
            _lock(dialog, wait_seconds)
            yield Folders(Folder(dialog), Folder(results))


def _opened_folder(top: int, name: str) -> AbstractContextManager[int]:
    return _closing(os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=top))


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, wait_seconds: float) -> None:
    """Wait for the lock, but not forever: its holder may be a stopped process."""
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError(errno.ETIMEDOUT, "another process holds the archive") from None
        time.sleep(POLL_SECONDS)


def _write(descriptor: int, texts: Iterable[bytes], at: float) -> None:
    for text in texts:
        rest = memoryview(text)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    os.utime(descriptor, (at, at))
    os.fsync(descriptor)


def _cut_partial_line(descriptor: int) -> int:
    """Cut off the partial line of a killed process and return the new size of the file."""
    size = end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - CHUNK_BYTES)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(descriptor, end)
    return end
