"""Checkpoints of earlier compactions, found by the content of a history: no session ids."""

import asyncio
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from chat_proxy.caches import BoundedDict, LruCache
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.recognition.digests import Covered
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.session.recognition.anchors import Anchors
from chat_proxy.proxy.session.recognition.history import History
from chat_proxy.proxy.session.recognition.scope import Scope, address_of, own_of, page_of
from chat_proxy.store.base import Store

KIND = "checkpoint"
KEPT_SECONDS = 30 * 86_400
LOCAL_BYTES = 64 * 1024 * 1024
REMEMBERED_QUERIES = 10_000
# Short, because another process may write what the store did not have.
ASK_AGAIN_SECONDS = 1.0
CLOSE_SECONDS = 5.0
INLINE_SEAMS = 1_000
CONTINUED_SECONDS = 900.0
"""How long a conversation is trusted to be the one that was recognised before."""
TRAILS = 12
"""How many of the newest seams may be the end of an earlier request that was recognised."""
MAX_ALIKE = 32
"""How many checkpoints are compared with a history at most."""


def addresses_of(key: bytes, history: History, last: int) -> Iterator[bytes]:
    """Yield the addresses of a history's prefixes up to a seam, the longest first."""
    root_seam = history.root_seam
    page = page_of(key, history.link_at(root_seam)) if root_seam else b""
    for seam in reversed(history.seams):
        if history.instructions < seam <= last:
            link = history.link_at(seam)
            yield (page if seam >= root_seam else page_of(key, link)) + own_of(key, link)


def _covers(
    checkpoint: Checkpoint, history: History, seam: int, continued: Container[bytes]
) -> bool:
    """Return whether a checkpoint covers the messages before a seam, and replaces some of them."""
    missing = checkpoint.until - (seam - history.instructions)
    if checkpoint.folded_until and checkpoint.folded_until <= missing:
        return False
    covered, folded = checkpoint.covered, max(0, checkpoint.folded_until - missing)
    is_continued = covered.name in continued
    return history.is_covered(covered, checkpoint.until, seam, folded, is_continued=is_continued)


def _trails_of(history: History, last: int, most: int = TRAILS) -> list[bytes]:
    """Return the trails of the newest seams up to `last`, the newest first."""
    seams = [seam for seam in history.seams if history.instructions < seam <= last]
    return [history.trail(seam) for seam in reversed(seams[-most:])]


def _marks_of(history: History, until: int) -> tuple[Covered, bytes | None]:
    """Return the digests of the messages before a seam, and its anchor if it has one."""
    return history.covered(until), history.anchor_at(until)


class Checkpoints:
    """Find the checkpoint of a history's longest prefix, in memory and in the shared store.

    All caches are bounded and keyed by scope, so that no tenant finds another's checkpoints. What
    is stored counts messages from the end of the leading instructions, whose number may change.
    """

    def __init__(
        self,
        store: Store,
        *,
        max_local: int = 2_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self._clock = clock
        self._min_weight = LOCAL_BYTES // max_local
        self._local: LruCache[bytes, tuple[bytes, Checkpoint]] = LruCache(LOCAL_BYTES)
        self._asked: LruCache[bytes, float] = LruCache(REMEMBERED_QUERIES)
        self._unmarked: BoundedDict[tuple[str, bytes, str], float] = BoundedDict(REMEMBERED_QUERIES)
        self._writes: dict[asyncio.Task[bool], bytes] = {}
        self._anchors = Anchors(store)
        self._trails: LruCache[bytes, tuple[bytes, float]] = LruCache(REMEMBERED_QUERIES)
        """What covered each request that was recognised, by the request's last messages."""

    async def find(
        self, scope: Scope, history: History, last: int, kind: str = KIND, *, anew: bool = False
    ) -> Checkpoint | None:
        """Return the checkpoint of the longest prefix up to the seam `last` that has one.

        A history that is only alike is recognised if no prefix has a checkpoint. `anew` looks for
        it in any case, and queries the store even if it was queried for this history just now.
        """
        key = scope.key(self.store, kind)
        addresses = addresses_of(key, history, last)
        longest_first: Iterable[bytes] = addresses
        if len(history.seams) > INLINE_SEAMS:
            longest_first = await asyncio.to_thread(list, addresses)
        exact = await self._find(kind, longest_first, anew=anew)
        exact = exact.shifted(history.instructions) if exact else None
        found = exact
        if exact is None or anew:
            found = await self._find_alike(scope, history, last, kind, exact) or exact
        if found is not None:
            for trail in _trails_of(history, last, 1):
                self._trails.put(trail, (found.covered.name, self._clock()))
        return found

    async def _find(
        self, kind: str, longest_first: Iterable[bytes], *, anew: bool
    ) -> Checkpoint | None:
        """Return the first checkpoint that these addresses have."""
        queries, known = self._walk(longest_first, anew=anew)
        rows = await self.store.get_many(kind, queries) if queries else {}
        for address in queries:
            checkpoint = self._read(address, rows.get(address))
            if checkpoint is not None:
                return checkpoint
        return self._held(known) if known else None

    async def _find_alike(
        self, scope: Scope, history: History, last: int, kind: str, exact: Checkpoint | None
    ) -> Checkpoint | None:
        """Return the checkpoint of the longest prefix that says the same in another form."""
        anchors = history.anchors(last, exact.until if exact else 0)
        targets = await self._anchors.find(scope, kind, anchors) if anchors else []
        targets = targets[:MAX_ALIKE]
        unknown = [address for _, address in targets if address not in self._local]
        rows = await self.store.get_many(kind, unknown) if unknown else {}
        trails = _trails_of(history, last) if targets else []
        continued = {name for trail in trails if (name := self._continued_by(trail))}
        for seam, address in targets:
            checkpoint = self._read(address, rows.get(address))
            if checkpoint is None:
                continue
            compared = partial(_covers, checkpoint, history, seam, continued)
            if await run_inline_or_in_thread(compared, history.size):
                return self._recognised(checkpoint, scope, history, seam, kind)
            await asyncio.sleep(0)  # many that only look alike must not block other requests
        return None

    def _continued_by(self, trail: bytes) -> bytes | None:
        """Return what covered the request that ended so, if it came a short while ago.

        Not the same run of yesterday: its results were others.
        """
        name, at = self._trails.get(trail) or (None, 0.0)
        return name if self._clock() - at < CONTINUED_SECONDS else None

    def _recognised(
        self, checkpoint: Checkpoint, scope: Scope, history: History, seam: int, kind: str
    ) -> Checkpoint:
        """Return a checkpoint for a history that says the same, and remember it there.

        Not in the store: the history may be in another form again with the next request.
        """
        missing = checkpoint.until - (seam - history.instructions)
        alike = replace(checkpoint.shifted(-missing), missing=checkpoint.missing + missing)
        if not missing:
            self._remember(self._address_at(scope, history, seam, kind), b"", alike)
        return alike.shifted(history.instructions)

    def was_unmarked(self, tenant: str, fingerprint: bytes, kind: str) -> bool:
        """Return whether no mark was found just now; called on every request, so without I/O."""
        asked_at = self._unmarked.get((tenant, fingerprint, kind))
        return asked_at is not None and self._clock() - asked_at < ASK_AGAIN_SECONDS

    async def is_marked(self, scope: Scope, name: bytes, kind: str) -> bool:
        """Return whether a mark is stored under a name, and remember it if there is none."""
        address = scope.address(self.store, kind, name)
        if await self._find(kind, [address], anew=False) is not None:
            self._unmarked.pop((*scope, kind), None)
            return True
        self._unmarked.put((*scope, kind), self._clock())
        return False

    async def mark(self, scope: Scope, name: bytes, checkpoint: Checkpoint, kind: str) -> bool:
        """Store a mark under a name."""
        self._unmarked.pop((*scope, kind), None)
        return await self._keep(scope, kind, scope.address(self.store, kind, name), checkpoint)

    async def keep(
        self, scope: Scope, history: History, checkpoint: Checkpoint, kind: str = KIND
    ) -> bool:
        """Store a checkpoint, even if the caller is cancelled; return whether the store has it."""
        until = checkpoint.until
        stored = checkpoint.shifted(-history.instructions)
        address = self._address_at(scope, history, until, kind)
        return await self._keep(scope, kind, address, stored, partial(_marks_of, history, until))

    async def _keep(
        self,
        scope: Scope,
        kind: str,
        address: bytes,
        checkpoint: Checkpoint,
        marks: Callable[[], tuple[Covered, bytes | None]] | None = None,
    ) -> bool:
        """Remember a checkpoint at once, and store it with the marks to recognise it by."""
        self._remember(address, b"", checkpoint)
        writing = asyncio.create_task(self._write(scope, kind, address, checkpoint, marks))
        self._writes[writing] = address
        writing.add_done_callback(self._writes.pop)
        return await asyncio.shield(writing)

    async def _write(
        self,
        scope: Scope,
        kind: str,
        address: bytes,
        checkpoint: Checkpoint,
        marks: Callable[[], tuple[Covered, bytes | None]] | None,
    ) -> bool:
        stored, anchor = checkpoint, None
        if marks is not None:
            covered, anchor = await asyncio.to_thread(marks)
            stored = replace(checkpoint, covered=covered)
        row = stored.to_bytes()
        if self._held(address) is checkpoint:
            self._remember(address, row, stored)
        if anchor is not None:
            await self._anchors.add(scope, kind, anchor, address, KEPT_SECONDS)
        return await self.store.put(kind, address, row, KEPT_SECONDS, scope.tenant)

    def _address_at(self, scope: Scope, history: History, seam: int, kind: str) -> bytes:
        return scope.address(self.store, kind, history.link_at(seam), history.root_at(seam))

    def address(self, scope: Scope, link: bytes, kind: str) -> bytes:
        """Return a history's address, unique among all that share the store."""
        return scope.address(self.store, kind, link)

    def addresses(self, scope: Scope, links: Iterable[bytes], kind: str) -> list[bytes]:
        """Return the addresses of several histories, in their order."""
        key = scope.key(self.store, kind)
        return [address_of(key, link, link) for link in links]

    async def close(self) -> None:
        """Wait for running writes, up to a time limit."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=CLOSE_SECONDS)

    def _walk(
        self, longest_first: Iterable[bytes], *, anew: bool
    ) -> tuple[list[bytes], bytes | None]:
        """Return the addresses to query the store for, and the longest prefix in memory.

        That one is queried too: another process may have replaced it, and all must send the same
        prompt. Prefixes of a history that was queried just now are not queried again.
        """
        queries: list[bytes] = []
        asked_at: float | None = None
        now = self._clock()
        known = None
        for address in longest_first:
            if asked_at is None and not anew:
                asked_at = self._recently_queried_at(address, now)
            known = address if address in self._local else None
            if asked_at is None and address not in self._writes.values():
                queries.append(address)
            if known:
                break
        if queries:
            self._asked.put(queries[0], now if asked_at is None else asked_at)
        return queries, known

    def _recently_queried_at(self, address: bytes, now: float) -> float | None:
        asked_at = self._asked.get(address)
        return asked_at if asked_at is not None and now - asked_at < ASK_AGAIN_SECONDS else None

    def _read(self, address: bytes, row: bytes | None) -> Checkpoint | None:
        """Return the store's checkpoint, else the one in memory, whose write may be pending."""
        held = self._local.get(address)
        is_known = held is not None and held[0] == row
        if row is not None and not is_known and address not in self._writes.values():
            with suppress(ValueError):
                held = (row, Checkpoint.from_bytes(row))
                self._remember(address, *held)
        return held[1] if held else None

    def _held(self, address: bytes) -> Checkpoint | None:
        held = self._local.get(address)
        return held[1] if held else None

    def _remember(self, address: bytes, row: bytes, checkpoint: Checkpoint) -> None:
        self._local.put(address, (row, checkpoint), max(self._min_weight, 2 * len(row)))
