"""Deleting rows out of the SQLite file for good: not a byte of them stays in it or beside it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from chat_proxy.store.base import StoreUnavailable
from chat_proxy.store.purge_selection import Purged, Selection
from chat_proxy.store.sqlite.file import connect, left_beside

WAIT_SECONDS = 30.0
ROWS_AT_ONCE = 200

_SELECT = """SELECT kind, key, length(value) FROM rows
    WHERE (:before IS NULL OR written <= :before)
    AND (:tenant IS NULL OR owner IS NULL OR owner = :tenant)"""


def purge_file(path: Path, selection: Selection, wait_seconds: float = WAIT_SECONDS) -> Purged:
    """Delete the selected rows, and the copies of the file that may have some of them."""
    try:
        purged = _purge_beside(path, selection)
        with closing(connect(path, wait_seconds)) as connection:
            purged += _purge_rows(connection, selection)
            # secure_delete is not enough: pages that a row was moved out of have it still, as was
            # measured in every second file. Only a file written anew has not.
            connection.execute("VACUUM")
            _empty_log(connection)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path}: {error}") from None
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror}") from None
    return purged


def _purge_rows(connection: sqlite3.Connection, selection: Selection) -> Purged:
    """Delete a few rows at a time, so that others can write in between."""
    rows = connection.execute(
        _SELECT, {"before": selection.before, "tenant": selection.tenant}
    ).fetchall()
    for some in _in_parts(rows):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "DELETE FROM rows WHERE kind = ? AND key = ?", [row[:2] for row in some]
        )
        connection.execute("COMMIT")
    return Purged(rows=len(rows), bytes=sum(size for *_, size in rows))


def _in_parts(rows: list[tuple[str, bytes, int]]) -> Iterator[list[tuple[str, bytes, int]]]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]


def _empty_log(connection: sqlite3.Connection) -> None:
    (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise sqlite3.OperationalError("somebody reads the file; its log could not be emptied")


def _purge_beside(path: Path, selection: Selection) -> Purged:
    """Delete copies whatever they hold: nobody can take rows out of a damaged file."""
    purged = Purged()
    for copy in left_beside(path):
        found = copy.stat()
        if selection.is_old(found.st_mtime):
            copy.unlink()
            purged += Purged(files=1, bytes=found.st_size)
    return purged
