"""Offloaded texts: stored whole, because too long to send, under an id of their tenant."""

import re
import time
from collections.abc import Callable, Mapping

from chat_proxy.caches import LruCache
from chat_proxy.store.base import MAX_TTL_SECONDS, Store

KIND = "offload"
ID_BYTES = 16
# About as much as a store writes in the time that a request waits for it.
MAX_TEXT_BYTES = 8 * 1024 * 1024
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
            if not self._is_due(address) or await self._write(tenant, address, text):
                continue
            if self._age(address) >= self._retention_seconds * 0.9:
                unkept.add(name)
        return frozenset(unkept)

    async def find(self, tenant: str, name: str) -> str | None:
        """Return the text that this tenant stored under an id, None if there is none."""
        if not self.enabled:
            return None
        address = self._address(tenant, name)
        row = (await self._store.get_many(KIND, [address])).get(address)
        return None if row is None else row.decode("utf-8", "replace")

    def _address(self, tenant: str, name: str) -> bytes:
        return self._store.address(b"offload", tenant.encode(), name.encode())

    def _is_due(self, address: bytes) -> bool:
        """Return whether the text must be written, or renewed so that it does not expire in use."""
        return self._age(address) >= self._retention_seconds / 2

    def _age(self, address: bytes) -> float:
        kept_at = self._kept_at.get(address)
        return self._retention_seconds if kept_at is None else self._clock() - kept_at

    async def _write(self, tenant: str, address: bytes, text: str) -> bool:
        now = self._clock()
        if now < self._paused_until or len(text) > MAX_TEXT_BYTES:
            return False
        value = _stored_form(text)
        if len(value) > MAX_TEXT_BYTES:
            return False
        seconds = self._retention_seconds
        if not await self._store.put(KIND, address, value, seconds, tenant):
            self._paused_until = now + PAUSE_SECONDS
            return False
        self._kept_at.put(address, now)
        return True


def _stored_form(text: str) -> bytes:
    """Return the text as UTF-8, which cannot encode lone surrogates (half of an emoji)."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("\ufffd", text).encode()
