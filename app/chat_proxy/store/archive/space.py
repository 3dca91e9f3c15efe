"""Space in the archive: a limit for all tenants and one for each; the oldest originals go first."""

import errno
from collections.abc import Iterator

from chat_proxy.store.archive.dialog import day_file, days, remove_day
from chat_proxy.store.archive.files import Entry, Folders
from chat_proxy.store.archive.quota import bytes_by_tenant, evict
from chat_proxy.store.archive.results import forget_owners, remove_result, results
from chat_proxy.store.base import Capacity

# More space is freed than needed, so that not every new text has to scan all files.
FILLED = 0.9
# The same for one tenant; to delete lines, the file of their day is written anew.
TENANT_FILLED = 0.75
# Other processes write too: after this many writes the sizes of all files are read again.
LOOK_EVERY = 64


class Space:
    """The bytes in use, of all tenants and of each that has files; `reserve` keeps the limits.

    The caller must hold the archive's lock.
    """

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._writes = 0
        self._used_bytes = 0
        self._used_by: dict[str, int] = {}

    def reserve(self, folders: Folders, tenant: str, size: int, now: float) -> None:
        """Reserve bytes for a new text, deleting the oldest if needed, or raise OSError."""
        if self._writes % LOOK_EVERY == 0:
            self._look(folders)
        self._writes += 1
        if not self._fits_tenant(tenant, size):
            self._free_for_tenant(folders, tenant, size, now)
        if self._used_bytes + size > self._capacity.max_bytes:
            self._free_for_all(folders, size, now)
        if self._used_bytes + size > self._capacity.max_bytes or not self._fits_tenant(
            tenant, size
        ):
            raise OSError(errno.EDQUOT, "the archive is full")
        self._used_bytes += size
        self._used_by[tenant] = self._used_by.get(tenant, 0) + size

    def sweep(self, folders: Folders, now: float) -> None:
        """Delete the oldest files if the archive is too large."""
        free_space(folders, 0, self._capacity.max_bytes, now)
        self.forget()

    def forget(self) -> None:
        """Read the sizes of all files again before the next write."""
        self._writes = 0

    def _look(self, folders: Folders) -> None:
        self._used_bytes = folders.bytes
        self._used_by = bytes_by_tenant(folders)

    def _fits_tenant(self, tenant: str, size: int) -> bool:
        return self._used_by.get(tenant, 0) + size <= self._capacity.tenant_max_bytes

    def _free_for_tenant(self, folders: Folders, tenant: str, size: int, now: float) -> None:
        """Delete the tenant's own oldest originals, unless the text would not fit anyway."""
        self._look(folders)
        limit = self._capacity.tenant_max_bytes
        if self._fits_tenant(tenant, size) or size > limit:
            return
        used = self._used_by[tenant]
        excess = used + size - limit
        some_more = max(excess, int(used + size - limit * TENANT_FILLED))
        if not evict(folders, tenant, min(some_more, used), now, spare_today=False):
            evict(folders, tenant, excess, now, spare_today=False)
        self._look(folders)

    def _free_for_all(self, folders: Folders, size: int, now: float) -> None:
        """Delete the oldest originals of the tenant that uses the most, then of all."""
        self._look(folders)
        excess = self._used_bytes + size - self._capacity.max_bytes
        if excess > 0 and self._used_by:
            largest = max(self._used_by, key=self._used_by.__getitem__)
            evict(folders, largest, excess, now, spare_today=True)
        free_space(folders, size, self._capacity.max_bytes, now)
        self._look(folders)


def free_space(folders: Folders, size: int, max_bytes: int, now: float) -> int:
    """Delete the oldest files if `size` more bytes do not fit; return the bytes in use.

    Nothing is deleted for a text that would not fit anyway.
    """
    used = folders.bytes
    if used + size <= max_bytes:
        return used
    oldest_first = sorted(_removable(folders, now), key=lambda entry: entry.at)
    if size and used - sum(entry.size for entry in oldest_first) + size > max_bytes:
        return used
    for entry in oldest_first:
        if used + size <= max_bytes * FILLED:
            break
        _remove(folders, entry)
        used -= entry.size
    forget_owners(folders.results, now)
    return folders.bytes


def _removable(folders: Folders, now: float) -> Iterator[Entry]:
    """Yield all files except the current day's: its line numbers would start again."""
    today = day_file(now)
    yield from (day for day in days(folders.dialog) if day.name != today)
    yield from results(folders.results)


def _remove(folders: Folders, entry: Entry) -> None:
    if entry.name.endswith(".jsonl"):
        remove_day(folders.dialog, entry)
    else:
        remove_result(folders.results, entry)
