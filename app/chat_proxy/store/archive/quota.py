"""The share of a tenant in the archive: what it uses, and deleting its oldest originals."""

from collections import defaultdict
from typing import NamedTuple

from chat_proxy.store.archive.dialog import Stored, day_file, days, drop_spans, spans_of
from chat_proxy.store.archive.files import Entry, Folders
from chat_proxy.store.archive.results import forget_owners, owners_of, remove_result, results


class _Original(NamedTuple):
    """A file with a tool result, or a span in a day's file."""

    at: float
    size: int
    file: Entry
    span: Stored | None = None


def bytes_by_tenant(folders: Folders) -> dict[str, int]:
    """Return the bytes of every tenant, by the owners of results and the indices of days."""
    used: defaultdict[str, int] = defaultdict(int)
    owners = owners_of(folders.results)
    for result in results(folders.results):
        if owner := owners.get(result.name):
            used[owner] += result.size
    for day in days(folders.dialog):
        for span in spans_of(folders.dialog, day):
            used[span.tenant] += span.size
    return dict(used)


def evict(folders: Folders, tenant: str, size: int, now: float, *, spare_today: bool) -> bool:
    """Delete a tenant's oldest originals until `size` bytes went; return whether they did.

    Nothing is deleted if the tenant does not have so much. `spare_today` keeps the spans of today.
    """
    today = day_file(now) if spare_today else None
    chosen: list[_Original] = []
    freed = 0
    for original in sorted(_originals_of(folders, tenant, today), key=lambda it: it.at):
        if freed >= size:
            break
        chosen.append(original)
        freed += original.size
    if freed < size:
        return False
    _delete(folders, chosen, day_file(now))
    forget_owners(folders.results, now)
    return True


def _originals_of(folders: Folders, tenant: str, spared: str | None) -> list[_Original]:
    owners = owners_of(folders.results)
    found = [
        _Original(result.at, result.size, result)
        for result in results(folders.results)
        if owners.get(result.name) == tenant
    ]
    for day in days(folders.dialog):
        if day.name != spared:
            spans = spans_of(folders.dialog, day)
            found += [_Original(day.at, it.size, day, it) for it in spans if it.tenant == tenant]
    return found


def _delete(folders: Folders, originals: list[_Original], today: str) -> None:
    spans: defaultdict[Entry, list[Stored]] = defaultdict(list)
    for original in originals:
        if original.span is None:
            remove_result(folders.results, original.file)
        else:
            spans[original.file].append(original.span)
    for day, dropped in spans.items():
        drop_spans(folders.dialog, day, dropped, is_closed=day.name != today)
