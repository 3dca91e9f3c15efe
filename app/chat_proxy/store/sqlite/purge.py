"""Deleting rows from the SQLite file, so that none of their bytes stay in it or its copies."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from chat_proxy.store.base import StoreUnavailable
from chat_proxy.store.purge_selection import Purged, Selection
from chat_proxy.store.sqlite.connection import connect
from chat_proxy.store.sqlite.file import copies_of

WAIT_SECONDS = 30.0
ROWS_AT_ONCE = 200

_SELECT = """SELECT kind, key, bytes FROM rows
    WHERE (:before IS NULL OR written <= :before)
    AND (:tenant IS NULL OR owner IS NULL OR owner = :tenant)"""


def purge_file(path: Path, selection: Selection, wait_seconds: float = WAIT_SECONDS) -> Purged:
    """Delete the selected rows, and the copies of the file that may contain them."""
    try:
        purged = _purge_copies(path, selection)
        with closing(connect(path, wait_seconds)) as connection:
            purged += _purge_rows(connection, selection)
            # secure_delete is not enough: pages from which a row was moved still contain it, as
            # measured in every second file. Only rewriting the file removes it.
            connection.execute("VACUUM")
            _empty_log(connection)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path}: {error}") from None
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror}") from None
    return purged


def _purge_rows(connection: sqlite3.Connection, selection: Selection) -> Purged:
    """Delete a few rows at a time, so that other processes can write in between."""
    rows = connection.execute(
        _SELECT, {"before": selection.before, "tenant": selection.tenant}
    ).fetchall()
    for batch in _batches(rows):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "DELETE FROM rows WHERE kind = ? AND key = ?", [row[:2] for row in batch]
        )
        connection.execute("COMMIT")
    return Purged(rows=len(rows), bytes=sum(size for *_, size in rows))


def _batches(rows: list[tuple[str, bytes, int]]) -> Iterator[list[tuple[str, bytes, int]]]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]


def _empty_log(connection: sqlite3.Connection) -> None:
    (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise sqlite3.OperationalError(
            "another process is reading the file; its write-ahead log could not be emptied"
        )


def _purge_copies(path: Path, selection: Selection) -> Purged:
    """Delete whole copies: single rows cannot be deleted from a damaged file."""
    purged = Purged()
    for copy in copies_of(path):
        found = copy.stat()
        if selection.is_old(found.st_mtime):
            copy.unlink()
            purged += Purged(files=1, bytes=found.st_size)
    return purged
