"""Offloaded texts: stored whole, because too long to send, under an id of their tenant."""

import re
import time
from collections.abc import Callable, Mapping
from functools import partial

from chat_proxy.caches import LruCache
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.store.base import MAX_TTL_SECONDS, Store

KIND = "offload"
PARTS_KIND = "offload_parts"
"""The kind of the row that says into how many parts a text was split."""
ID_BYTES = 16
# About as much as a store writes in the time that a request waits for it.
MAX_ROW_BYTES = 8 * 1024 * 1024
# A longer text is split into smaller parts, so that no write takes the whole time.
PART_BYTES = 4 * 1024 * 1024
REMEMBERED = 50_000
# A store that is full or does not respond is not tried for every text of every request.
PAUSE_SECONDS = 5.0

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Offloads:
    """Store texts while they are in use, and for the retention time after that.

    Ids and addresses depend on the tenant: no other tenant can read a text. If they are disabled,
    nothing is stored, and nothing is found that was stored before.
    """

    def __init__(
        self,
        store: Store,
        retention_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        enabled: bool = True,
    ) -> None:
        self.enabled = enabled
        self._store = store
        self._retention_seconds = min(retention_seconds, MAX_TTL_SECONDS)
        self._clock = clock
        self._kept_at: LruCache[bytes, float] = LruCache(REMEMBERED)
        self._paused_until = clock()

    def id_of(self, tenant: str, text: str) -> str:
        """Return the text's id: the same for the same tenant and text, in every process."""
        content = text.encode("utf-8", "surrogatepass")
        return self._store.address(b"offload-id", tenant.encode(), content)[:ID_BYTES].hex()

    async def keep(self, tenant: str, texts: Mapping[str, str]) -> frozenset[str]:
        """Store the texts by their ids; return the ids of those that could not be stored."""
        if not self.enabled:
            return frozenset(texts)
        unkept = set()
        # The small ones first: a large one that takes too long must not block them.
        for name, text in sorted(texts.items(), key=lambda item: len(item[1])):
            address = self._address(tenant, name)
            if not self._is_due(address) or await self._write(tenant, name, text):
                continue
            if self._age(address) >= self._retention_seconds * 0.9:
                unkept.add(name)
        return frozenset(unkept)

    async def find(self, tenant: str, name: str) -> str | None:
        """Return the text that this tenant stored under an id, None if there is none."""
        if not self.enabled:
            return None
        address = self._address(tenant, name)
        value = await self._read(KIND, address)
        if value is None:
            value = await self._read_parts(tenant, name)
        return None if value is None else value.decode("utf-8", "replace")

    def _address(self, tenant: str, name: str) -> bytes:
        return self._store.address(b"offload", tenant.encode(), name.encode())

    def _is_due(self, address: bytes) -> bool:
        """Return whether the text must be written, or renewed so that it does not expire in use."""
        return self._age(address) >= self._retention_seconds / 2

    def _age(self, address: bytes) -> float:
        kept_at = self._kept_at.get(address)
        return self._retention_seconds if kept_at is None else self._clock() - kept_at

    async def _write(self, tenant: str, name: str, text: str) -> bool:
        now = self._clock()
        if now < self._paused_until:
            return False
        address = self._address(tenant, name)
        rows = await run_inline_or_in_thread(partial(self._rows, tenant, name, text), len(text))
        for kind, key, value in rows:
            if not await self._store.put(kind, key, value, self._retention_seconds, tenant):
                self._paused_until = now + PAUSE_SECONDS
                return False
        self._kept_at.put(address, now)
        return True

    def _rows(self, tenant: str, name: str, text: str) -> list[tuple[str, bytes, bytes]]:
        """Return the rows of a text; of a split one the row that makes it found comes last."""
        value, address = _stored_form(text), self._address(tenant, name)
        if len(value) <= MAX_ROW_BYTES:
            return [(KIND, address, value)]
        parts = [value[at : at + PART_BYTES] for at in range(0, len(value), PART_BYTES)]
        rows = [(KIND, self._part(tenant, name, at), part) for at, part in enumerate(parts)]
        return [*rows, (PARTS_KIND, address, b"%d" % len(parts))]

    async def _read(self, kind: str, address: bytes) -> bytes | None:
        return (await self._store.get_many(kind, [address])).get(address)

    async def _read_parts(self, tenant: str, name: str) -> bytes | None:
        """Return a text that was split; None if a part of it is missing."""
        count = await self._read(PARTS_KIND, self._address(tenant, name))
        parts = []
        for number in range(int(count or 0)):
            part = await self._read(KIND, self._part(tenant, name, number))
            if part is None:
                return None
            parts.append(part)
        return b"".join(parts) if parts else None

    def _part(self, tenant: str, name: str, number: int) -> bytes:
        return self._store.address(b"offload", tenant.encode(), name.encode(), b"%d" % number)


def _stored_form(text: str) -> bytes:
    """Return the text as UTF-8, which cannot encode lone surrogates (half of an emoji)."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("\ufffd", text).encode()
