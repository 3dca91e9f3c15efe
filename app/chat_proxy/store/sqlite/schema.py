"""The schema of the SQLite file, and how a file of an older schema becomes one of this schema.

A value may have megabytes, so it must not be in the tree that is searched for keys: SQLite reads
every row whole that it compares with a key. So `rows` has a rowid, keys are in an index, and the
value is the last column, behind all that is read without it.
"""

import os
import sqlite3
from contextlib import closing
from glob import escape
from pathlib import Path

from chat_proxy.store.base import StoreUnavailable
from chat_proxy.store.sqlite.connection import connect

SCHEMA_VERSION = 4
ROW_BYTES = 256
"""What a row takes besides its value, about."""
BACKUP_SECONDS = 5 * 86_400

INSERT = """INSERT INTO rows (kind, key, expires, seal, owner, written, bytes, value)
    VALUES (?1,?2,?3,?4,?5,?6,length(CAST(?7 AS BLOB)),?7)
    ON CONFLICT (kind, key) DO UPDATE SET expires = excluded.expires, seal = excluded.seal,
    owner = excluded.owner, written = excluded.written, bytes = excluded.bytes,
    value = excluded.value"""
"""Write a row: kind, key, expires, seal, owner, written, value."""

# `owner` is NULL if unknown, and empty if the row belongs to no tenant. `written` is 0 if unknown,
# so that such a row counts as old. `bytes` has no default: a proxy of an older version that is
# still running reads this table as before, and what it writes is refused.
_CREATE = (
    """CREATE TABLE rows (
    kind TEXT NOT NULL,
    key BLOB NOT NULL,
    expires INTEGER NOT NULL,
    seal BLOB NOT NULL,
    owner TEXT,
    written INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL,
    value BLOB NOT NULL,
    UNIQUE (kind, key)
)""",
    "CREATE INDEX rows_by_expiry ON rows (expires)",
)
# The bytes of every tenant. Triggers count them, so that the sum is right whoever deletes a row.
_COUNT = (
    "CREATE INDEX rows_by_owner ON rows (owner, written, bytes)",
    "CREATE TABLE usage (owner TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID",
    """INSERT INTO usage SELECT owner, sum(bytes + :row_bytes) FROM rows
    WHERE owner != '' GROUP BY owner""",
    """CREATE TRIGGER row_added AFTER INSERT ON rows WHEN NEW.owner != '' BEGIN
    INSERT INTO usage VALUES (NEW.owner, NEW.bytes + :row_bytes)
    ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
END""",
    """CREATE TRIGGER row_deleted AFTER DELETE ON rows WHEN OLD.owner != '' BEGIN
    UPDATE usage SET bytes = bytes - OLD.bytes - :row_bytes WHERE owner = OLD.owner;
    DELETE FROM usage WHERE owner = OLD.owner AND bytes <= 0;
END""",
    """CREATE TRIGGER row_replaced AFTER UPDATE OF owner, bytes ON rows BEGIN
    UPDATE usage SET bytes = bytes - OLD.bytes - :row_bytes
    WHERE owner = OLD.owner AND OLD.owner != '';
    INSERT INTO usage SELECT NEW.owner, NEW.bytes + :row_bytes WHERE NEW.owner != ''
    ON CONFLICT (owner) DO UPDATE SET bytes = bytes + excluded.bytes;
    DELETE FROM usage WHERE owner = OLD.owner AND bytes <= 0;
END""",
)
# What a row of each older schema has, in the order of INSERT.
_OLDER = {
    1: "SELECT kind, key, expires, seal, NULL, 0, value FROM rows",
    2: "SELECT kind, key, expires, seal, owner, written, value FROM rows",
}


def migrate(path: Path, wait_seconds: float, now: float) -> None:
    """Migrate the file to the current schema in one transaction, after a backup."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    with closing(connect(path, wait_seconds)) as connection:
        if _version_of(connection) > SCHEMA_VERSION:
            raise StoreUnavailable(f"{path}: written by a newer version of chat-proxy")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        version = _version_of(connection)
        backup = path.with_name(f"{path.name}.v{version}")
        if 0 < version < SCHEMA_VERSION:
            _back_up(path, backup, now)
        if version == 0:
            _run(connection, _CREATE)
        elif version in _OLDER:
            _write_anew(connection, backup, _OLDER[version])
        if version < SCHEMA_VERSION:
            _run(connection, _COUNT)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
        connection.execute("SELECT count(*) FROM (SELECT 1 FROM rows LIMIT 1)").fetchone()
    _delete_old_backups(path, now)


def backups_of(path: Path) -> list[Path]:
    """Return the copies of the file in older schemas."""
    return list(path.parent.glob(f"{escape(path.name)}.v[0-9]*"))


def _run(connection: sqlite3.Connection, statements: tuple[str, ...]) -> None:
    for statement in statements:
        connection.execute(statement.replace(":row_bytes", str(ROW_BYTES)))


def _write_anew(connection: sqlite3.Connection, backup: Path, select: str) -> None:
    """Write the rows of the backup into a new table, on the pages that the old one had.

    So the file does not grow, and its size limit still holds.
    """
    connection.execute("DROP TABLE rows")
    _run(connection, _CREATE)
    with closing(sqlite3.connect(backup)) as copy:
        connection.executemany(INSERT, copy.execute(select))


def _back_up(path: Path, backup: Path, now: float) -> None:
    """Copy the file by a connection of its own: one that writes cannot be copied from."""
    backup.unlink(missing_ok=True)
    os.close(os.open(backup, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with closing(sqlite3.connect(path)) as original, closing(sqlite3.connect(backup)) as copy:
        original.backup(copy)
    os.utime(backup, (now, now))


def _delete_old_backups(path: Path, now: float) -> None:
    """Delete old backups: data in them must not outlive its retention by much."""
    for backup in backups_of(path):
        if backup.stat().st_mtime <= now - BACKUP_SECONDS:
            backup.unlink(missing_ok=True)


def _version_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
