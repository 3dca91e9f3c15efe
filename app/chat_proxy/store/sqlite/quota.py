"""The share of a tenant in the SQLite file: its oldest rows go when it would use too much.

Triggers keep the sum of each tenant's bytes in `usage`, whoever writes or deletes rows. Rows
without a tenant, such as leases, count for none and are not evicted.
"""

import sqlite3

from chat_proxy.store.sqlite.schema import ROW_BYTES

# Deleting so many rows takes some milliseconds; what needs more is refused until later writes have
# deleted the rest.
EVICTED_AT_ONCE = 2_000

_USED = "SELECT bytes FROM usage WHERE owner = ?"
_LARGEST = "SELECT owner, bytes FROM usage ORDER BY bytes DESC LIMIT 1"
_REPLACED = "SELECT bytes FROM rows WHERE kind = ? AND key = ? AND owner = ?"
_OLDEST = "SELECT rowid, bytes FROM rows WHERE owner = ? ORDER BY written, rowid LIMIT ?"
_DELETE = "DELETE FROM rows WHERE rowid = ?"


def make_room(
    connection: sqlite3.Connection, owner: str, address: tuple[str, bytes], size: int, limit: int
) -> bool:
    """Evict a tenant's oldest rows until a value fits its limit; return whether it fits.

    Nothing is evicted for a value that would not fit anyway.
    """
    if size + ROW_BYTES > limit:
        return False
    replaced = connection.execute(_REPLACED, (*address, owner)).fetchone()
    freed = replaced[0] + ROW_BYTES if replaced else 0
    excess = _used_by(connection, owner) - freed + size + ROW_BYTES - limit
    return excess <= 0 or _evict(connection, owner, excess) >= excess


def evict_from_largest(connection: sqlite3.Connection, size: int) -> bool:
    """Evict the oldest rows of the tenant that uses the most; return whether `size` bytes went."""
    largest = connection.execute(_LARGEST).fetchone()
    if largest is None or largest[1] < size:
        return False
    return _evict(connection, largest[0], size) >= size


def _used_by(connection: sqlite3.Connection, owner: str) -> int:
    row = connection.execute(_USED, (owner,)).fetchone()
    return int(row[0]) if row else 0


def _evict(connection: sqlite3.Connection, owner: str, size: int) -> int:
    """Delete a tenant's oldest rows and return the bytes that they used: `size`, or almost."""
    freed = 0
    chosen = []
    for rowid, value_bytes in connection.execute(_OLDEST, (owner, EVICTED_AT_ONCE)):
        chosen.append((rowid,))
        freed += value_bytes + ROW_BYTES
        if freed >= size:
            break
    connection.executemany(_DELETE, chosen)
    return freed
