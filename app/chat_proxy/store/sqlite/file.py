"""The SQLite file: opening it, replacing a damaged one, and the secret beside it."""

import fcntl
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

from chat_proxy.store.base import StoreUnavailable
from chat_proxy.store.sqlite.connection import is_damage
from chat_proxy.store.sqlite.schema import backups_of, migrate

SECRET_BYTES = 32


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
        migrate(path, wait_seconds, now)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        _move_away(path, now)
        migrate(path, wait_seconds, now)
        return True
    return False


def log_bytes(path: Path) -> int:
    """Return the size of the write-ahead log; 0 if there is none."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except OSError:
        return 0


def copies_of(path: Path) -> list[Path]:
    """Return the copies beside the file: damaged files, and backups of older schemas."""
    return [*path.parent.glob(f"{escape(path.name)}.corrupt-*"), *backups_of(path)]


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
