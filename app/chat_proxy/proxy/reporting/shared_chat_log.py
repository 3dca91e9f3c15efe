"""The latest chats of all processes that share a store: each writes its own, all read them.

A store has no list of its keys, so there is a fixed number of slots, one for each process. A slot
holds the name of its process and how many rows that has written; its pages are a ring of their own.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

import orjson

from chat_proxy.store.base import Store
from chat_proxy.telemetry.chat_history import ROWS, ChatHistory, Row
from chat_proxy.telemetry.record import RequestRecord
from chat_proxy.telemetry.totals import Totals
from chat_proxy.write_behind import WriteBehind

# Change the number when the format changes: proxies of two versions may share a store.
SLOT = "exchange_chair_1"
PAGE = "exchange_1"
DETAILS = "exchange_detail_1"
SLOTS = 64
PAGE_ROWS = 50
PAGES = ROWS // PAGE_ROWS
PAGE_DETAIL_BYTES = 256 * 1024
KEPT_SECONDS = 86_400
# Totals belong to no tenant. A page has rows of several tenants, so purging any of them deletes it.
NO_TENANT = ""
WRITE_SECONDS = 1.0

# A generator of its own: slots are chosen at random, so that processes that start at the same
# time choose different ones.
_RANDOM = Random()  # noqa: S311 - guessing a slot gains nothing


class Head(NamedTuple):
    """The content of a slot."""

    worker: str
    written: int
    at: float
    started: float
    totals: Mapping[str, Any]


class SharedChatLog:
    """The history of this process, and what the other processes wrote of theirs.

    Bounded by the slots and by the rows of each process. It is for operators: rows of all tenants.
    """

    def __init__(
        self,
        store: Store,
        history: ChatHistory,
        clock: Callable[[], float] = time.time,
        write_seconds: float = WRITE_SECONDS,
    ) -> None:
        self.own = history
        self._store = store
        self._clock = clock
        self._write_seconds = write_seconds
        self._written = 0
        self._has_slot = True
        self._others: dict[str, list[Row]] = {}
        self._heads: list[Head] = []
        self._read_at = 0.0
        self._write_behind = WriteBehind(self.write, write_seconds)

    def add(self, record: RequestRecord) -> None:
        """Add a finished request of this process."""
        self.own.add(record)
        self._write_behind.schedule()

    async def close(self) -> None:
        """Write what is pending."""
        await self._write_behind.close()

    # For the dashboard

    async def refresh(self) -> None:
        """Read what other processes wrote, no more often than they write."""
        now = self._clock()
        if 0 <= now - self._read_at < self._write_seconds:
            return
        self._read_at = now
        slots = await self._slots()
        if not any(slots):  # no process has written yet, or the store does not answer
            return
        heads = [head for head in slots if head and head.worker != self.own.worker]
        others = {head.worker: await self._rows_of(head) for head in heads}
        self._heads, self._others = heads, others

    def rows(self) -> list[Row]:
        """Return the latest rows of all processes, the oldest first."""
        own = self.own.rows()
        found = [row for rows in (own, *self._others.values()) for row in rows]
        return sorted(found, key=lambda row: row["at"])[-ROWS:]

    @property
    def totals(self) -> Totals:
        """The totals of all processes."""
        return Totals.sum_of([self.own.totals.document(), *(head.totals for head in self._heads)])

    @property
    def since(self) -> float:
        """When the first of all processes started."""
        return min([self.own.started, *(head.started for head in self._heads)])

    @property
    def workers(self) -> int:
        """How many processes the rows come from."""
        return 1 + len(self._heads)

    async def detail(self, name: str) -> bytes | None:
        """Return the stored detail of one chat of any process."""
        worker, _, digits = name.partition("-")
        if not digits.isdecimal() or len(digits) > 18:
            return None
        number = int(digits)
        if worker == self.own.worker:
            return self.own.detail(number)
        page = number // PAGE_ROWS
        found = await self._documents(DETAILS, worker, [page])
        detail = found[page]["details"].get(name) if page in found else None
        return orjson.dumps(detail) if detail is not None else None

    # Reading

    async def _slots(self) -> list[Head | None]:
        keys = [self._slot_key(number) for number in range(SLOTS)]
        rows = await self._store.get_many(SLOT, keys)
        return [head_of(rows[key]) if key in rows else None for key in keys]

    async def _rows_of(self, head: Head) -> list[Row]:
        """Return the rows of another process: those known, and what it has written since."""
        rows = self._others.get(head.worker, [])
        first = rows[-1]["number"] + 1 if rows else 0
        if first >= head.written:
            return rows
        pages = pages_of(first, head.written)
        found = await self._documents(PAGE, head.worker, pages)
        new = [row for page in pages if page in found for row in found[page]["rows"]]
        return [*rows, *(row for row in new if row["number"] >= first)][-ROWS:]

    async def _documents(self, kind: str, worker: str, pages: list[int]) -> dict[int, Any]:
        """Return the pages that still exist; a later one may have overwritten them in the ring."""
        keys = {page: self._page_key(worker, page) for page in pages}
        rows = await self._store.get_many(kind, list(keys.values()))
        found = {page: orjson.loads(rows[key]) for page, key in keys.items() if key in rows}
        return {page: document for page, document in found.items() if document["page"] == page}

    # Writing

    async def write(self) -> bool:
        """Write new rows: first the pages, then their number into the slot.

        Return whether nothing is pending: what the store refused is tried again, and so is a slot
        that another process took meanwhile.
        """
        own, count = self.own, self.own.count
        if count == self._written and self._has_slot:
            return True
        heads = await self._slots()
        slots = [
            head for head in heads if head and (head.worker, head.written) == (own.worker, count)
        ]
        self._has_slot = bool(slots)
        if self._has_slot or not await self._write_pages(count):
            return self._has_slot
        head = Head(own.worker, count, self._clock(), own.started, own.totals.document())
        slot = self._slot_key(free_slot(heads, own.worker))
        value = orjson.dumps(head._asdict())
        await self._store.put(SLOT, slot, value, KEPT_SECONDS, NO_TENANT)
        return False  # read back next time: another process may have chosen the same slot

    async def _write_pages(self, count: int) -> bool:
        """Write the pages that have new rows; return whether the store has all of them."""
        for page in pages_of(self._written, count) if count > self._written else ():
            if not await self._write_page(page):
                return False
        self._written = count
        return True

    async def _write_page(self, page: int) -> bool:
        first = page * PAGE_ROWS
        rows = self.own.rows(first, first + PAGE_ROWS)
        key = self._page_key(self.own.worker, page)
        if details := dict(self._details(rows)):
            value = orjson.dumps({"page": page, "details": details})
            await self._store.put(DETAILS, key, value, KEPT_SECONDS)
        value = orjson.dumps({"page": page, "rows": rows})
        return await self._store.put(PAGE, key, value, KEPT_SECONDS)

    def _details(self, rows: list[Row]) -> Iterator[tuple[str, orjson.Fragment]]:
        """Yield the details of a page's rows, the newest first, as far as they fit."""
        space = PAGE_DETAIL_BYTES
        for row in reversed(rows):
            detail = self.own.detail(row["number"])
            if detail is not None and (space := space - len(detail)) >= 0:
                yield row["id"], orjson.Fragment(detail)

    def _slot_key(self, number: int) -> bytes:
        return self._store.address(SLOT.encode(), b"%d" % number)

    def _page_key(self, worker: str, page: int) -> bytes:
        return self._store.address(PAGE.encode(), worker.encode(), b"%d" % (page % PAGES))


def head_of(value: bytes) -> Head | None:
    """Read the content of a slot; a slot that cannot be read is free."""
    try:
        return Head(**orjson.loads(value))
    except (ValueError, TypeError):
        return None


def pages_of(first: int, end: int) -> list[int]:
    """Return the pages that hold the rows `first:end`, as far as the ring still has them."""
    last = (end - 1) // PAGE_ROWS
    return list(range(max(first // PAGE_ROWS, last - PAGES + 1), last + 1))


def free_slot(heads: list[Head | None], worker: str) -> int:
    """Return the slot of a process, else a free one, else the one not written for longest."""
    ages = {}
    free = []
    for number, head in enumerate(heads):
        if head is None:
            free.append(number)
        elif head.worker == worker:
            return number
        else:
            ages[number] = head.at
    return _RANDOM.choice(free) if free else min(ages, key=ages.__getitem__)
