"""Checkpoints of earlier compactions, found by the content of a history: no session ids."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

from chat_proxy.caches import BoundedDict, LruCache
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.store.base import Store

KIND = "checkpoint"
KEPT_SECONDS = 30 * 86_400
LOCAL_BYTES = 64 * 1024 * 1024
REMEMBERED_QUERIES = 10_000
# Short, because another process may write what the store did not have.
ASK_AGAIN_SECONDS = 1.0
CLOSE_SECONDS = 5.0
INLINE_SEAMS = 1_000
ROOT_SEAM = 3
ROOT_BYTES = 8


class Scope(NamedTuple):
    """The owner of stored values: one tenant, under one policy."""

    tenant: str
    fingerprint: bytes

    def key(self, store: Store, kind: str) -> bytes:
        """Return the key of all addresses of one kind, which no other scope has."""
        return store.address(kind.encode(), self.tenant.encode(), self.fingerprint)

    def address(self, store: Store, kind: str, link: bytes, root: bytes | None = None) -> bytes:
        """Return the store's address of a history, given by its last hash."""
        return address_of(self.key(store, kind), link, root or link)


def address_of(key: bytes, link: bytes, root: bytes) -> bytes:
    """Return a history's address under a scope's key: keyed BLAKE2, a fifth of an HMAC's time.

    It begins with the hash of its conversation, so that all addresses of one conversation are on
    the same few pages of a file: reading fifty of them from a large store reads one page, not
    fifty.
    """
    return _page_of(key, root) + _own_of(key, link)


def addresses_of(key: bytes, seams: Sequence[int], links: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the addresses of all prefixes of a history, the longest first."""
    root_seam = root_seam_of(seams)
    page = _page_of(key, links[root_seam - 1]) if root_seam else b""
    for seam in reversed(seams):
        if seam:
            link = links[seam - 1]
            yield (page if seam >= root_seam else _page_of(key, link)) + _own_of(key, link)


def root_seam_of(seams: Sequence[int]) -> int:
    """Return the seam after the messages that identify a conversation.

    Not the first seam: it follows a system prompt that thousands of conversations share.
    """
    first = [seam for seam in islice(seams, ROOT_SEAM + 1) if seam]
    return first[:ROOT_SEAM][-1] if first else 0


def _page_of(key: bytes, root: bytes) -> bytes:
    return blake2b(root, key=key, digest_size=ROOT_BYTES).digest()


def _own_of(key: bytes, link: bytes) -> bytes:
    return blake2b(link, key=key, digest_size=32 - ROOT_BYTES).digest()


class Checkpoints:
    """Find the checkpoint of a history's longest prefix, in memory and in the shared store.

    All caches are bounded and keyed by scope, so that no tenant finds another's checkpoints.
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

    async def find(
        self,
        scope: Scope,
        seams: Sequence[int],
        links: Sequence[bytes],
        kind: str = KIND,
        *,
        anew: bool = False,
    ) -> Checkpoint | None:
        """Return the checkpoint of the longest prefix that has one; `links` has one per message.

        `anew` queries the store even if it was queried for this history just now.
        """
        key = scope.key(self.store, kind)
        addresses = addresses_of(key, seams, links)
        longest_first: Iterable[bytes] = addresses
        if len(seams) > INLINE_SEAMS:
            longest_first = await asyncio.to_thread(list, addresses)
        queries, known = self._walk(longest_first, anew=anew)
        rows = await self.store.get_many(kind, queries) if queries else {}
        for address in queries:
            checkpoint = self._read(address, rows.get(address))
            if checkpoint is not None:
                return checkpoint
        return self._held(known) if known else None

    def was_unmarked(self, tenant: str, fingerprint: bytes, kind: str) -> bool:
        """Return whether no mark was found just now; called on every request, so without I/O."""
        asked_at = self._unmarked.get((tenant, fingerprint, kind))
        return asked_at is not None and self._clock() - asked_at < ASK_AGAIN_SECONDS

    async def is_marked(self, scope: Scope, name: bytes, kind: str) -> bool:
        """Return whether a mark is stored under a name, and remember it if there is none."""
        if await self.find(scope, (1,), (name,), kind) is not None:
            self._unmarked.pop((*scope, kind), None)
            return True
        self._unmarked.put((*scope, kind), self._clock())
        return False

    async def keep(
        self,
        scope: Scope,
        link: bytes,
        checkpoint: Checkpoint,
        kind: str = KIND,
        *,
        root: bytes | None = None,
    ) -> bool:
        """Store a checkpoint, even if the caller is cancelled; return whether the store has it.

        `root` is the conversation's hash, if it is not the history's own.
        """
        address = scope.address(self.store, kind, link, root)
        self._unmarked.pop((*scope, kind), None)
        row = checkpoint.to_bytes()
        self._remember(address, row, checkpoint)
        writing = asyncio.create_task(
            self.store.put(kind, address, row, KEPT_SECONDS, scope.tenant)
        )
        self._writes[writing] = address
        writing.add_done_callback(self._writes.pop)
        return await asyncio.shield(writing)

    def address(self, scope: Scope, link: bytes, kind: str) -> bytes:
        """Return a history's address, unique among all that share the store."""
        return scope.address(self.store, kind, link)

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
