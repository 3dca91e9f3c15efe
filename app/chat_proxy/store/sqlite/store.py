"""A store in one SQLite file, shared by all processes on a machine.

It uses two threads, one for reading and one for writing. The time that a request waits for them is
bounded, and a cancelled request does not interrupt a write.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from chat_proxy.store.base import CLOCK_SLACK, MAX_TTL_SECONDS, Addresses, Capacity, Rows, Seal
from chat_proxy.store.lease import Lease
from chat_proxy.store.purge_selection import Purged, Selection
from chat_proxy.store.sqlite.connection import connect, is_busy, is_damage, is_full, name_of
from chat_proxy.store.sqlite.file import (
    locked_folder,
    log_bytes,
    open_or_replace,
    read_or_create_secret,
)
from chat_proxy.store.sqlite.lease import LEASE_KIND, SqliteLease, Work, holder_of
from chat_proxy.store.sqlite.purge import purge_file
from chat_proxy.store.sqlite.quota import evict_from_largest, make_room
from chat_proxy.store.sqlite.schema import INSERT, ROW_BYTES

T = TypeVar("T")
Notice = Callable[[str, str], None]
Row = tuple[str, bytes, int, bytes, str | None, int, bytes]

WAL_BYTES = 64 * 1024 * 1024
KEYS_PER_QUERY = 500
SWEEP_EVERY = 100
SWEEP_ROWS = 200
# How often a full file is made smaller for one value: the rows that go may be on shared pages.
EVICTIONS = 3

_SELECT = "SELECT key, value, expires, seal FROM rows WHERE kind = ? AND expires > ?"
_SWEEP = """DELETE FROM rows WHERE rowid IN
    (SELECT rowid FROM rows WHERE expires <= ? OR expires > ? LIMIT ?)"""


class SqliteStore:
    """Stores sealed rows in a file; a failure is a miss and a notice."""

    def __init__(
        self,
        path: Path,
        secret: bytes | None = None,
        *,
        notice: Notice = lambda _operation, _reason: None,
        capacity: Capacity = Capacity(),  # noqa: B008 - a constant
        wait_seconds: float = 0.25,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._secret = secret
        self._notice = notice
        self._capacity = capacity
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._threads = {name: ThreadPoolExecutor(1, f"store-{name}") for name in ("get", "put")}
        self._connections: dict[str, sqlite3.Connection] = {}
        self._is_off = True
        self._is_refusing = False
        self._puts = 0

    @property
    def is_in_trouble(self) -> bool:
        """Whether the file is closed or damaged, or refused the last value."""
        return self._is_off or self._is_refusing

    @property
    def log_bytes(self) -> int:
        """The size of the write-ahead log."""
        return log_bytes(self._path)

    async def open(self) -> None:
        """Open the file, moving a corrupt one away, or raise StoreUnavailable."""
        loop = asyncio.get_running_loop()
        secret = await loop.run_in_executor(self._threads["put"], self._open)
        self._seal = Seal(secret)
        self._addresses = Addresses(secret)
        self._is_off = False

    async def close(self) -> None:
        """Write pending values and close the file."""
        self._is_off = True
        loop = asyncio.get_running_loop()
        for thread in self._threads.values():
            await loop.run_in_executor(None, thread.shutdown)
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        """Return the values that exist, are intact and have not expired."""
        return await self._within_bound("get", {}, self._get_many, kind, keys)

    async def put(
        self, kind: str, key: bytes, value: bytes, ttl_seconds: float, owner: str | None = None
    ) -> bool:
        """Store a value and return whether it was stored in time.

        `owner` is the tenant whose purge deletes the row; "" if it belongs to no tenant. The purge
        of any tenant deletes a row whose owner is unknown (None).
        """
        return await self._within_bound(
            "put", False, self._put, kind, key, value, ttl_seconds, owner
        )

    async def purge(self, selection: Selection) -> Purged:
        """Delete rows so that none of their bytes stay, or raise StoreUnavailable."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads["put"], purge_file, self._path, selection)

    def address(self, *parts: bytes) -> bytes:
        """Return the key for these parts; the store must be open."""
        return self._addresses.of(*parts)

    async def lease(self, key: bytes, seconds: float) -> Lease | None:
        """Return the lease for this key, or None while another process holds it."""
        lease = SqliteLease(self._lease_run, self._seal, self._clock, key, seconds)
        return lease if await lease.take() else None

    async def any_held(self, keys: list[bytes]) -> bool:
        """Return whether a process holds the lease for one of these keys."""
        rows = await self.get_many(LEASE_KIND, keys)
        now = self._clock()
        return any(holder_of(value, now) is not None for value in rows.values())

    async def _lease_run(self, work: Work) -> bool:
        """Run the work of a lease in one transaction; a fault counts as success."""
        return await self._within_bound("lease", True, self._in_transaction, work)

    async def _within_bound(
        self, operation: str, otherwise: T, work: Callable[..., T], *arguments: object
    ) -> T:
        """Return the result of the work, run on its thread, or `otherwise` after the time limit."""
        if self._is_off:
            return otherwise
        loop = asyncio.get_running_loop()
        thread = self._threads["get" if operation == "get" else "put"]
        task = loop.run_in_executor(thread, self._guarded, work, arguments)
        try:
            done, _ = await asyncio.wait({task}, timeout=self._wait_seconds)
        except asyncio.CancelledError:
            if operation == "get":
                task.cancel()
            raise
        if not done:
            # Drop work that has not started: values must not pile up while the file is locked.
            task.cancel()
            self._notice(operation, "slow")
            return otherwise
        result = task.result()
        if operation == "put":
            self._is_refusing = isinstance(result, sqlite3.Error) and not is_busy(result)
        if isinstance(result, sqlite3.Error):
            self._notice(operation, self._reason(result))
            return otherwise
        return result

    def _guarded(self, work: Callable[..., T], arguments: tuple[object, ...]) -> T | sqlite3.Error:
        """Return the error instead of raising it, since the result may not be awaited."""
        try:
            return work(*arguments)
        except sqlite3.Error as error:
            return error

    def _reason(self, error: sqlite3.Error) -> str:
        """Return the name of the fault; stop using a damaged file."""
        if is_damage(error):
            self._is_off = True
        return name_of(error).removeprefix("SQLITE_").lower()

    # On the reading thread

    def _get_many(self, kind: str, keys: list[bytes]) -> Rows:
        found: Rows = {}
        now = int(self._clock())
        for start in range(0, len(keys), KEYS_PER_QUERY):
            batch = keys[start : start + KEYS_PER_QUERY]
            marks = ",".join("?" * len(batch))
            rows = self._connection("get").execute(
                f"{_SELECT} AND key IN ({marks})", (kind, now, *batch)
            )
            for key, value, expires, seal in rows:
                if self._seal.holds(seal, kind, key, value, expires):
                    found[key] = value
                else:
                    self._notice("get", "integrity")
        return found

    # On the writing thread

    def _put(
        self, kind: str, key: bytes, value: bytes, ttl_seconds: float, owner: str | None
    ) -> bool:
        now = self._clock()
        expires = int(now + min(ttl_seconds, MAX_TTL_SECONDS))
        seal = self._seal.of(kind, key, value, expires)
        row = (kind, key, expires, seal, owner, int(now), value)
        self._puts += 1
        if self._puts % SWEEP_EVERY == 1:
            self._sweep(CLOCK_SLACK)
        for free in (partial(self._sweep, 0), *(partial(self._evict, value),) * EVICTIONS):
            try:
                return self._in_transaction(partial(self._insert, row=row))
            except sqlite3.OperationalError as error:
                if not is_full(error):
                    raise
                if not free():
                    break
        return self._in_transaction(partial(self._insert, row=row))

    def _insert(self, connection: sqlite3.Connection, row: Row) -> bool:
        """Write a row, in place of its owner's oldest ones if that owner has too many bytes."""
        kind, key, _, _, owner, _, value = row
        limit = self._capacity.tenant_max_bytes
        if owner and not make_room(connection, owner, (kind, key), len(value), limit):
            self._notice("put", "quota")
            return False
        connection.execute(INSERT, row)
        return True

    def _evict(self, value: bytes) -> bool:
        """Evict rows of the tenant that uses the most, so that it cannot keep others out."""
        size = len(value) + ROW_BYTES
        return self._in_transaction(lambda connection: evict_from_largest(connection, size))

    def _sweep(self, slack_seconds: int) -> bool:
        """Delete expired rows, and rows that a wrong clock gave an expiry too far in the future.

        Rows that expired less than `slack_seconds` ago are hidden but not deleted.
        """
        now = int(self._clock())
        latest = now + MAX_TTL_SECONDS + CLOCK_SLACK
        values = (now - slack_seconds, latest, SWEEP_ROWS)
        self._in_transaction(lambda connection: connection.execute(_SWEEP, values))
        return True

    def _in_transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of the work, which sees no writes of other processes."""
        connection = self._connection("put")
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            # After a full disk SQLite has already rolled back.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    def _connection(self, name: str) -> sqlite3.Connection:
        """Return the connection of the thread; the writing one enforces the size limits."""
        if name not in self._connections:
            connection = connect(self._path, self._wait_seconds)
            if name == "put":
                (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
                connection.execute(
                    f"PRAGMA max_page_count = {max(1, self._capacity.max_bytes // page_bytes)}"
                )
                connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
            self._connections[name] = connection
        return self._connections[name]

    # On the writing thread, once

    def _open(self) -> bytes:
        with locked_folder(self._path.parent, self._path):
            secret = self._secret or read_or_create_secret(self._path)
            if open_or_replace(self._path, self._wait_seconds, self._clock()):
                self._notice("open", "corrupt")
        return secret
