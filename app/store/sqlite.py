"""A store in one SQLite file, shared by all processes of a machine.

Work happens on two threads of its own, one that reads and one that writes: a request waits for it
no longer than the bound, and a request that is cancelled leaves it undisturbed.
"""

import asyncio
import os
import secrets
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from app.store.base import Rows, Seal, StoreUnavailable

T = TypeVar("T")
Notice = Callable[[str, str], None]

SCHEMA_VERSION = 1
SWEEP_EVERY = 500
KEYS_PER_QUERY = 500
_SCHEMA = """
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
"""


class SqliteStore:
    """Keeps sealed rows in a file; what fails is a miss and a notice."""

    def __init__(
        self,
        path: Path,
        secret: bytes | None = None,
        *,
        notice: Notice = lambda _operation, _reason: None,
        wait_seconds: float = 0.25,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._secret = secret
        self._notice = notice
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._threads = {name: ThreadPoolExecutor(1, f"store-{name}") for name in ("get", "put")}
        self._connections: dict[str, sqlite3.Connection] = {}
        self._seal = Seal(secret or b"")
        self._broken = False
        self._puts = 0

    async def open(self) -> None:
        """Open the file, setting a corrupt one aside; raise StoreUnavailable if that cannot be."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads["put"], self._open)

    async def close(self) -> None:
        """Write what waits, and close the file."""
        loop = asyncio.get_running_loop()
        for thread in self._threads.values():
            await loop.run_in_executor(None, thread.shutdown)
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        """Return the values that are there, whole and not expired."""
        return await self._within_bound("get", {}, self._get_many, kind, keys)

    async def put(self, kind: str, key: bytes, value: bytes, ttl_seconds: float) -> bool:
        """Keep a value; return whether it was kept in time."""
        return await self._within_bound("put", False, self._put, kind, key, value, ttl_seconds)

    async def _within_bound(
        self, operation: str, otherwise: T, work: Callable[..., T], *arguments: object
    ) -> T:
        """Do the work on its thread and wait for it no longer than the bound."""
        if self._broken:
            return otherwise
        loop = asyncio.get_running_loop()
        task = loop.run_in_executor(self._threads[operation], self._guarded, work, arguments)
        done, _ = await asyncio.wait({task}, timeout=self._wait_seconds)
        if not done:
            task.add_done_callback(lambda late: late.exception())
            self._notice(operation, "slow")
            return otherwise
        result = task.result()
        if isinstance(result, sqlite3.Error):
            self._notice(operation, self._reason(result))
            return otherwise
        return result

    def _guarded(self, work: Callable[..., T], arguments: tuple[object, ...]) -> T | sqlite3.Error:
        """Return the error instead of raising it into a thread that nobody watches."""
        try:
            return work(*arguments)
        except sqlite3.Error as error:
            return error

    def _reason(self, error: sqlite3.Error) -> str:
        """Name the fault; a damaged file is not touched again."""
        name = getattr(error, "sqlite_errorname", "") or type(error).__name__
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            self._broken = True
        return name.removeprefix("SQLITE_").lower()

    # On the reading thread

    def _get_many(self, kind: str, keys: list[bytes]) -> Rows:
        found: Rows = {}
        now = int(self._clock())
        for start in range(0, len(keys), KEYS_PER_QUERY):
            some = keys[start : start + KEYS_PER_QUERY]
            marks = ",".join("?" * len(some))
            query = "SELECT key, value, expires, seal FROM rows WHERE kind = ? AND expires > ?"
            rows = self._connection("get").execute(
                f"{query} AND key IN ({marks})",
                (kind, now, *some),
            )
            for key, value, expires, seal in rows:
                if self._seal.holds(seal, kind, key, value, expires):
                    found[key] = value
                else:
                    self._notice("get", "integrity")
        return found

    # On the writing thread

    def _put(self, kind: str, key: bytes, value: bytes, ttl_seconds: float) -> bool:
        expires = int(self._clock() + ttl_seconds)
        seal = self._seal.of(kind, key, value, expires)
        connection = self._connection("put")
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(
                "INSERT OR REPLACE INTO rows (kind, key, value, expires, seal) VALUES (?,?,?,?,?)",
                (kind, key, value, expires, seal),
            )
            self._sweep(connection)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        return True

    def _sweep(self, connection: sqlite3.Connection) -> None:
        """Now and then, delete what has expired."""
        self._puts += 1
        if self._puts % SWEEP_EVERY == 1:
            connection.execute("DELETE FROM rows WHERE expires <= ?", (int(self._clock()),))

    def _connection(self, name: str) -> sqlite3.Connection:
        """Return the thread's own connection."""
        if name not in self._connections:
            self._connections[name] = self._connect()
        return self._connections[name]

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._wait_seconds, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        return connection

    def _open(self) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._secret is None:
                self._seal = Seal(secret_beside(self._path))
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            self._migrate()
        except sqlite3.DatabaseError as error:
            if self._reason(error) not in ("notadb", "corrupt"):
                raise StoreUnavailable(f"{self._path}: {error}") from None
            self._set_aside()
        except OSError as error:
            raise StoreUnavailable(f"{self._path}: {error.strerror}") from None

    def _migrate(self) -> None:
        """Bring the file to this version's form; two starters at once do it once."""
        with closing(self._connect()) as connection:
            if _version_of(connection) > SCHEMA_VERSION:
                raise StoreUnavailable(f"{self._path}: written by a newer version of chat-proxy")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            if _version_of(connection) == 0:
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
            connection.execute("COMMIT")
            connection.execute("SELECT count(*) FROM (SELECT 1 FROM rows LIMIT 1)").fetchone()

    def _set_aside(self) -> None:
        """Move a damaged file out of the way, never delete it, and start anew."""
        self._notice("open", "corrupt")
        aside = self._path.with_name(f"{self._path.name}.corrupt-{int(self._clock())}")
        self._path.rename(aside)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        self._broken = False
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        self._migrate()


def _version_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def secret_beside(path: Path) -> bytes:
    """Return the secret that lies beside the file, made once; two starters agree on one."""
    place = path.with_name(path.name + ".secret")
    draft = place.with_name(f"{place.name}.{os.getpid()}.{secrets.token_hex(4)}")
    if not place.exists():
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, place)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return place.read_bytes()
