"""Where a proxy keeps its SQLite file, and what may be wrong with that."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

FIRST_FORM = """
CREATE TABLE rows (
    kind TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, expires INTEGER NOT NULL,
    seal BLOB NOT NULL, PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE INDEX rows_by_expiry ON rows (expires);
PRAGMA user_version = 1;
"""
"""The schema of the first version, with values among the keys."""
SECOND_FORM = f"""
{FIRST_FORM}
ALTER TABLE rows ADD COLUMN owner TEXT;
ALTER TABLE rows ADD COLUMN written INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 2;
"""
"""The schema of the second version, which knows owners."""


def place_in(folder: Path) -> Path:
    """Where the file is."""
    return folder / "data" / "store.db"


def store_in_file(folder: Path, **more: Any) -> dict[str, Any]:
    """The section that names it."""
    return {"url": f"sqlite:///{place_in(folder)}", **more}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file's lock for writers."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def garbage(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database" * 500)


def cut_short(path: Path) -> None:
    """A database whose second half is missing."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as whole:
        whole.execute("CREATE TABLE rows (key BLOB)")
        whole.executemany("INSERT INTO rows VALUES (?)", [(bytes(900),) for _ in range(100)])
        whole.commit()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def newer(path: Path) -> None:
    """A file of a version that is yet to come."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as future:
        future.execute("CREATE TABLE what_comes (later BLOB)")
        future.execute("PRAGMA user_version = 99")


def no_folder(path: Path) -> None:
    """A file where the folder should be: not even the superuser can write in it."""
    path.parent.write_text("no folder")


def empty(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
