"""Freeing space in the archive by deleting its oldest files."""

from collections.abc import Iterator

from chat_proxy.store.archive.dialog import day_file, days, remove_day
from chat_proxy.store.archive.files import Entry, Folders
from chat_proxy.store.archive.results import forget_owners, remove_result, results

# More space is freed than needed, so that not every new text has to scan all files.
FILLED = 0.9


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
