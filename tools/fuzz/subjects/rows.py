"""Store rows: what others wrote is a miss, never an exception and never used."""

import asyncio
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.proxy.reporting.shared_chat_log import head_of
from chat_proxy.proxy.sizing.learned_windows import _lesson_in
from chat_proxy.store.base import Addresses, Seal
from chat_proxy.store.sqlite.schema import INSERT
from chat_proxy.store.sqlite.store import SqliteStore
from chat_proxy.tokens.calibration.calibration import Calibration

_SECRET = b"s" * 32
_SEAL = Seal(_SECRET)
_ADDRESSES = Addresses(_SECRET)
_KEY = b"k" * 32


def read_any_row(data: bytes) -> None:
    """Read the bytes as each kind of row, and spoil a sealed one with them."""
    _read_checkpoint(data)
    assert Calibration.from_json(data).to_json()
    head_of(data)
    _lesson_in(data)
    _seal_apart(data)
    _STORE.read(data)


def _read_checkpoint(data: bytes) -> None:
    try:
        checkpoint = Checkpoint.from_bytes(data)
    except ValueError:
        return
    assert Checkpoint.from_bytes(checkpoint.to_bytes()) == checkpoint


def _seal_apart(data: bytes) -> None:
    """No two rows share a seal, however their bytes are parted into fields."""
    half = len(data) // 2
    seal = _SEAL.of("kind", data[:half], data[half:], 9)
    assert _SEAL.holds(seal, "kind", data[:half], data[half:], 9)
    for key, value in ((data, b""), (b"", data), (data[half:], data[:half])):
        is_same = (key, value) == (data[:half], data[half:])
        assert _SEAL.holds(seal, "kind", key, value, 9) is is_same
        assert (_ADDRESSES.of(key, value) == _ADDRESSES.of(data[:half], data[half:])) is is_same
    assert not _SEAL.holds(seal, "kin", b"d" + data[:half], data[half:], 9)


class _SpoiltStore:
    """A file into which somebody else writes."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rows-")
        self._path = Path(self._folder.name) / "store.db"
        self._loop: asyncio.AbstractEventLoop | None = None

    def read(self, data: bytes) -> None:
        """Write a row of any types, and read it: it is not there."""
        if self._loop is None:
            self._open()
        assert self._loop is not None
        value, expires, seal = (_typed(data[at:]) for at in range(3))
        row = ("kind", _KEY, 2**62 if expires is None else expires, seal, None, 0, value)
        try:
            self._file.execute(INSERT, row)
        except (sqlite3.Error, OverflowError):
            return
        found = self._loop.run_until_complete(self._store.get_many("kind", [_KEY]))
        assert found == {}

    def _open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._store = SqliteStore(self._path, _SECRET, notice=lambda *_: None, wait_seconds=5)
        self._loop.run_until_complete(self._store.open())
        self._file = sqlite3.connect(self._path, isolation_level=None)
        self._file.execute("PRAGMA synchronous = OFF")


def _typed(data: bytes) -> Any:
    """Return the bytes as one of the types that SQLite lets stand in any column."""
    rest = data[1:33]
    match data[:1]:
        case b"t":
            return rest.decode("utf-8", "replace")
        case b"i":
            return int.from_bytes(rest[:8], "big", signed=True)
        case b"f":
            return float(len(data)) * 1e300
        case _:
            return rest


_STORE = _SpoiltStore()
