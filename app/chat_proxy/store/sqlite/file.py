"""The SQLite file: its schema, its backups, and the secret beside it."""

import fcntl
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from glob import escape
from pathlib import Path

from chat_proxy.store.base import StoreUnavailable

SCHEMA_VERSION = 2
SECRET_BYTES = 32
BACKUP_SECONDS = 5 * 86_400
# The migration from each schema version to the next. `owner` is NULL if unknown, and empty if the
# row belongs to no tenant. `written` is 0 if unknown, so that such a row counts as old.
_STEPS = (
    """
CREATE TABLE rows (
    kind TEXT NOT NULL,
    key BLOB NOT NULL,
    value BLOB NOT NULL,
    expires INTEGER NOT NULL,
    seal BLOB NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE INDEX rows_by_expiry ON rows (expires);
PRAGMA user_version = 1;
""",
    """
ALTER TABLE rows ADD COLUMN owner TEXT;
ALTER TABLE rows ADD COLUMN written INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 2;
""",
)


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


@contextmanager
def locked_folder(folder: Path, path: Path) -> Iterator[None]:
    """Create the folder and hold its lock; raise StoreUnavailable if either fails.

    Without the lock, two starting processes that find a damaged file would both move it away, and
    the second one would move the new file of the first.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror}") from None
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{path}: {error}") from None


def open_or_replace(path: Path, wait_seconds: float, now: float) -> bool:
    """Migrate the file to the current schema; return whether a damaged file was moved away."""
    try:
        _migrate(path, wait_seconds, now)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        _move_away(path, now)
        _migrate(path, wait_seconds, now)
        return True
    return False


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


def log_bytes(path: Path) -> int:
    """Return the size of the write-ahead log; 0 if there is none."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except OSError:
        return 0


def copies_of(path: Path) -> list[Path]:
    """Return the copies beside the file: damaged files, and backups of older schemas."""
    return [*path.parent.glob(f"{escape(path.name)}.corrupt-*"), *_backups_of(path)]


def _migrate(path: Path, wait_seconds: float, now: float) -> None:
    """Migrate the file to the current schema in one transaction, after a backup."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    with closing(connect(path, wait_seconds)) as connection:
        version = _version_of(connection)
        if version > SCHEMA_VERSION:
            raise StoreUnavailable(f"{path}: written by a newer version of chat-proxy")
        connection.execute("PRAGMA journal_mode = WAL")
        if 0 < version < SCHEMA_VERSION:
            _back_up(connection, path.with_name(f"{path.name}.v{version}"), now)
        connection.execute("BEGIN IMMEDIATE")
        for step in _STEPS[_version_of(connection) :]:
            for statement in step.split(";"):
                connection.execute(statement)
        connection.execute("COMMIT")
        connection.execute("SELECT count(*) FROM (SELECT 1 FROM rows LIMIT 1)").fetchone()
    _delete_old_backups(path, now)


def _back_up(connection: sqlite3.Connection, backup: Path, now: float) -> None:
    backup.unlink(missing_ok=True)
    os.close(os.open(backup, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with closing(sqlite3.connect(backup)) as copy:
        connection.backup(copy)
    os.utime(backup, (now, now))


def _backups_of(path: Path) -> list[Path]:
    return list(path.parent.glob(f"{escape(path.name)}.v[0-9]*"))


def _delete_old_backups(path: Path, now: float) -> None:
    """Delete old backups: data in them must not outlive its retention by much."""
    for backup in _backups_of(path):
        if backup.stat().st_mtime <= now - BACKUP_SECONDS:
            backup.unlink(missing_ok=True)


def _version_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _move_away(path: Path, now: float) -> None:
    """Rename a damaged file; it is never deleted here."""
    path.rename(path.with_name(f"{path.name}.corrupt-{int(now)}"))
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def read_or_create_secret(path: Path) -> bytes:
    """Return the secret beside the file, created once even if two processes start together."""
    place = path.with_name(path.name + ".secret")
    if not place.exists():
        _make_secret(place)
    secret = place.read_bytes()
    if len(secret) < SECRET_BYTES:
        raise StoreUnavailable(f"{place}: is too short for a secret")
    return secret


def _make_secret(place: Path) -> None:
    draft = place.with_name(f"{place.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(SECRET_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, place)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
