"""The SQLite file itself: its place, its form, and the secret that lies beside it."""

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
# What leads from each version to the next. A row of unknown owner has none, one that is nobody's
# has an empty one; one of which nobody knows when it was written is taken for old.
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
    """Return a connection that begins no transaction by itself and leaves no deleted text."""
    connection = sqlite3.connect(
        path, timeout=wait_seconds, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA secure_delete = ON")
    return connection


@contextmanager
def alone_in(folder: Path, path: Path) -> Iterator[None]:
    """Make the folder and let one starter at a time work in it; raise StoreUnavailable if it fails.

    Two who find the same damaged file would otherwise both set it aside, the second one the
    first one's new file.
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


def make_ready(path: Path, wait_seconds: float, now: float) -> bool:
    """Bring the file to this version's form; return whether a damaged one was set aside for it."""
    try:
        _migrate(path, wait_seconds, now)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        _set_aside(path, now)
        _migrate(path, wait_seconds, now)
        return True
    return False


def is_damage(error: sqlite3.Error) -> bool:
    """Tell whether the file is no database, or no whole one."""
    return name_of(error).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def is_full(error: sqlite3.Error) -> bool:
    """Tell whether the file or its disk holds no more."""
    return name_of(error).startswith("SQLITE_FULL")


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether somebody else holds the file, which passes."""
    return name_of(error).startswith("SQLITE_BUSY")


def name_of(error: sqlite3.Error) -> str:
    """Return SQLite's own name for the error."""
    return getattr(error, "sqlite_errorname", "") or type(error).__name__


def log_bytes(path: Path) -> int:
    """Return the size of the write-ahead log beside the file; 0 if there is none."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except OSError:
        return 0


def left_beside(path: Path) -> list[Path]:
    """Return the copies of the file that lie beside it: damaged ones, and those of old forms."""
    return [*path.parent.glob(f"{escape(path.name)}.corrupt-*"), *_backups_of(path)]


def _migrate(path: Path, wait_seconds: float, now: float) -> None:
    """Bring the file to this version's form in one step or not at all, keeping a copy of before."""
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
    _forget_backups(path, now)


def _back_up(connection: sqlite3.Connection, place: Path, now: float) -> None:
    place.unlink(missing_ok=True)
    os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with closing(sqlite3.connect(place)) as copy:
        connection.backup(copy)
    os.utime(place, (now, now))


def _backups_of(path: Path) -> list[Path]:
    return list(path.parent.glob(f"{escape(path.name)}.v[0-9]*"))


def _forget_backups(path: Path, now: float) -> None:
    """Delete old copies: what is in them must not outlive its time by much."""
    for place in _backups_of(path):
        if place.stat().st_mtime <= now - BACKUP_SECONDS:
            place.unlink(missing_ok=True)


def _version_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _set_aside(path: Path, now: float) -> None:
    """Move a damaged file out of the way, never delete it."""
    path.rename(path.with_name(f"{path.name}.corrupt-{int(now)}"))
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def secret_beside(path: Path) -> bytes:
    """Return the secret that lies beside the file, made once; two starters agree on one."""
    place = path.with_name(path.name + ".secret")
    if not place.exists():
        _make_secret(place)
    secret = place.read_bytes()
    if len(secret) < SECRET_BYTES:
        raise StoreUnavailable(f"{place}: too short for a secret")
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
