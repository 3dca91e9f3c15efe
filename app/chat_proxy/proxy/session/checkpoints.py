"""What compactions left behind, found again by the content of a history: no session ids."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from math import inf
from typing import NamedTuple

from chat_proxy.caches import RecentCache
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.store.base import Store

KIND = "checkpoint"
KEPT_SECONDS = 30 * 86_400
LOCAL_BYTES = 64 * 1024 * 1024
REMEMBERED_QUESTIONS = 10_000
# No longer: another process may write what was not there.
ASK_AGAIN_SECONDS = 1.0
CLOSE_SECONDS = 5.0
INLINE_SEAMS = 1_000
ROOT_SEAM = 3
ROOT_BYTES = 8


class Scope(NamedTuple):
    """Who may use what is kept: one tenant, under one policy."""

    tenant: str
    fingerprint: bytes

    def key(self, store: Store, kind: str) -> bytes:
        """Return the key of all addresses of one kind, which no other scope has."""
        return store.address(kind.encode(), self.tenant.encode(), self.fingerprint)

    def address(self, store: Store, kind: str, link: bytes, root: bytes | None = None) -> bytes:
        """Return where the store keeps what belongs to a history, by its last link."""
        return address_of(self.key(store, kind), link, root or link)


def address_of(key: bytes, link: bytes, root: bytes) -> bytes:
    """Return a history's address under a scope's key: keyed BLAKE2, a fifth of an HMAC's time.

    It begins with its conversation's, so that all addresses of one conversation lie on the same
    few pages of a file: asking a large store for fifty of them reads not fifty pages but one.
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
    """Return where the part ends that stands for a whole conversation.

    Not the first seam, behind a system prompt that thousands of conversations share.
    """
    first = [seam for seam in islice(seams, ROOT_SEAM + 1) if seam]
    return first[:ROOT_SEAM][-1] if first else 0


def _page_of(key: bytes, root: bytes) -> bytes:
    return blake2b(root, key=key, digest_size=ROOT_BYTES).digest()


def _own_of(key: bytes, link: bytes) -> bytes:
    return blake2b(link, key=key, digest_size=32 - ROOT_BYTES).digest()


class Checkpoints:
    """Finds the checkpoint of a history's longest prefix: in memory, and in what others wrote."""

    def __init__(
        self,
        store: Store,
        *,
        max_local: int = 2_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._least_weight = LOCAL_BYTES // max_local
        self._local: RecentCache[bytes, tuple[bytes, Checkpoint]] = RecentCache(LOCAL_BYTES)
        self._asked: RecentCache[bytes, float] = RecentCache(REMEMBERED_QUESTIONS)
        self._unmarked: dict[tuple[str, bytes, str], float] = {}
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
        """Return the checkpoint of the longest prefix that has one; `links` follow messages.

        `anew` asks the store even for what it was asked for just now.
        """
        key = scope.key(self._store, kind)
        longest_first: Iterable[bytes] = addresses_of(key, seams, links)
        if len(seams) > INLINE_SEAMS:
            longest_first = await asyncio.to_thread(list, longest_first)
        questions, known = self._walk(longest_first, anew=anew)
        rows = await self._store.get_many(kind, questions) if questions else {}
        for address in questions:
            checkpoint = self._read(address, rows.get(address))
            if checkpoint is not None:
                return checkpoint
        return self._held(known) if known else None

    def was_unmarked(self, tenant: str, fingerprint: bytes, kind: str) -> bool:
        """Tell whether nothing was kept a moment ago; asked on every request, so at no cost."""
        asked_at = self._unmarked.get((tenant, fingerprint, kind), -inf)
        return self._clock() - asked_at < ASK_AGAIN_SECONDS

    async def is_marked(self, scope: Scope, name: bytes, kind: str) -> bool:
        """Tell whether something was kept under a name, and remember if nothing was."""
        if await self.find(scope, (1,), (name,), kind) is not None:
            self._unmarked.pop((*scope, kind), None)
            return True
        if len(self._unmarked) >= REMEMBERED_QUESTIONS:
            self._unmarked.clear()
        self._unmarked[*scope, kind] = self._clock()
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
        """Keep a checkpoint, whether or not the caller stays; return whether the store has it.

        `root` is the conversation's, where it is not the history itself.
        """
        address = scope.address(self._store, kind, link, root)
        self._unmarked.pop((*scope, kind), None)
        row = checkpoint.to_bytes()
        self._remember(address, row, checkpoint)
        writing = asyncio.create_task(
            self._store.put(kind, address, row, KEPT_SECONDS, scope.tenant)
        )
        self._writes[writing] = address
        writing.add_done_callback(self._writes.pop)
        return await asyncio.shield(writing)

    def address(self, scope: Scope, link: bytes, kind: str) -> bytes:
        """Return the name of a history's own among all who share the store."""
        return scope.address(self._store, kind, link)

    async def close(self) -> None:
        """Wait for what is being written, but not for ever."""
        if self._writes:
            await asyncio.wait(self._writes, timeout=CLOSE_SECONDS)

    def _walk(
        self, longest_first: Iterable[bytes], *, anew: bool
    ) -> tuple[list[bytes], bytes | None]:
        """Return what to ask the store for, and the longest prefix that memory knows.

        That one is asked for too: another process may have replaced it, and all must send the
        same prompt. What lies behind a history that was asked for just now is not asked again.
        """
        questions: list[bytes] = []
        asked_at: float | None = None
        now = self._clock()
        known = None
        for address in longest_first:
            if asked_at is None and not anew:
                asked_at = self._asked_lately(address, now)
            known = address if address in self._local else None
            if asked_at is None and address not in self._writes.values():
                questions.append(address)
            if known:
                break
        if questions:
            self._asked.put(questions[0], now if asked_at is None else asked_at)
        return questions, known

    def _asked_lately(self, address: bytes, now: float) -> float | None:
        asked_at = self._asked.get(address)
        return asked_at if asked_at is not None and now - asked_at < ASK_AGAIN_SECONDS else None

    def _read(self, address: bytes, row: bytes | None) -> Checkpoint | None:
        """Return what the store has, else what memory has, or is about to write."""
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
        self._local.put(address, (row, checkpoint), max(self._least_weight, 2 * len(row)))
