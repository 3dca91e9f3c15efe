"""Leases in the SQLite file: rows that expire, whose value names their holder."""

import math
import secrets
import sqlite3
import struct
from collections.abc import Awaitable, Callable

from chat_proxy.store.base import Seal
from chat_proxy.store.sqlite.schema import INSERT

LEASE_KIND = "lease"
TOKEN_BYTES = 16
CLOCK_STEP_SECONDS = 1.0
"""How far a clock may be set back before leases of the time ahead no longer count."""

_VALUE = struct.Struct(f">dd{TOKEN_BYTES}s")
_SELECT = "SELECT value, expires, seal FROM rows WHERE kind = ? AND key = ?"
_DELETE = "DELETE FROM rows WHERE kind = ? AND key = ?"

Work = Callable[[sqlite3.Connection], bool]


class SqliteLease:
    """A lease in the file; `run` runs its work in a transaction on the writing thread.

    The row has the times as fractions of a second, and no tenant: it says nothing about one.
    """

    def __init__(
        self,
        run: Callable[[Work], Awaitable[bool]],
        seal: Seal,
        clock: Callable[[], float],
        key: bytes,
        seconds: float,
    ) -> None:
        self._run = run
        self._seal = seal
        self._clock = clock
        self._key = key
        self._seconds = seconds
        self._token = secrets.token_bytes(TOKEN_BYTES)

    async def take(self) -> bool:
        """Take the lease and return whether it was free."""
        return await self._run(self._hold)

    async def renew(self) -> bool:
        """Extend the lease; return False only if another process holds it now."""
        return await self._run(self._hold)

    async def release(self) -> None:
        """Release the lease, if this process still holds it."""
        await self._run(self._let_go)

    # On the writing thread, in a transaction

    def _hold(self, connection: sqlite3.Connection) -> bool:
        now = self._clock()
        if self._holder(connection, now) not in (None, self._token):
            return False
        value = _VALUE.pack(now, now + self._seconds, self._token)
        expires = math.ceil(now + self._seconds)
        seal = self._seal.of(LEASE_KIND, self._key, value, expires)
        row = (LEASE_KIND, self._key, expires, seal, "", int(now), value)
        connection.execute(INSERT, row)
        return True

    def _let_go(self, connection: sqlite3.Connection) -> bool:
        if self._holder(connection, self._clock()) == self._token:
            connection.execute(_DELETE, (LEASE_KIND, self._key))
        return True

    def _holder(self, connection: sqlite3.Connection, now: float) -> bytes | None:
        """Return the token of the process that holds the lease now, if there is one."""
        row = connection.execute(_SELECT, (LEASE_KIND, self._key)).fetchone()
        if row is None:
            return None
        value, expires, seal = row
        if not self._seal.holds(seal, LEASE_KIND, self._key, value, expires):
            return None
        return holder_of(value, now)


def holder_of(value: bytes, now: float) -> bytes | None:
    """Return the token of the process that holds a lease of this value, None if it has ended."""
    since, until, token = _VALUE.unpack(value)
    return bytes(token) if since - CLOCK_STEP_SECONDS <= now < until else None
