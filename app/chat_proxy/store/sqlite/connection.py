"""Connections to the SQLite file, and the names of their errors."""

import sqlite3
from pathlib import Path


def connect(path: Path, wait_seconds: float) -> sqlite3.Connection:
    """Return a connection without implicit transactions that overwrites deleted data."""
    connection = sqlite3.connect(
        path, timeout=wait_seconds, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
    except BaseException:  # a damaged file is noticed here
        connection.close()
        raise
    return connection


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file is corrupt or not a database."""
    return name_of(error).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def is_full(error: sqlite3.Error) -> bool:
    """Return whether the file or its disk is full."""
    return name_of(error).startswith("SQLITE_FULL")


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection holds the file, which is temporary."""
    return name_of(error).startswith("SQLITE_BUSY")


def name_of(error: sqlite3.Error) -> str:
    """Return SQLite's name for the error."""
    return getattr(error, "sqlite_errorname", "") or type(error).__name__
