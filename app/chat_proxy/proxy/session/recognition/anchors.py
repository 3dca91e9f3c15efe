"""Which checkpoints end with the same words: their addresses, by the anchor of their last seam."""

from collections.abc import Mapping
from typing import Final

from chat_proxy.caches import LruCache
from chat_proxy.proxy.session.recognition.scope import ADDRESS_BYTES, Scope, address_of
from chat_proxy.store.base import Store

KIND: Final = "anchor"
MAX_TARGETS: Final = 8
"""How many checkpoints with the same last words are remembered, the newest first."""
REMEMBERED: Final = 10_000


class Anchors:
    """Remember checkpoints by anchor, in memory and in the shared store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._local: LruCache[bytes, tuple[bytes, ...]] = LruCache(REMEMBERED)

    async def find(
        self, scope: Scope, kind: str, anchors: Mapping[int, bytes]
    ) -> list[tuple[int, bytes]]:
        """Return each seam with the address of a checkpoint that may end there, in order."""
        key = scope.key(self._store, f"{KIND}:{kind}")
        addresses = {seam: address_of(key, anchor, anchor) for seam, anchor in anchors.items()}
        unknown = [address for address in addresses.values() if address not in self._local]
        rows = await self._store.get_many(KIND, unknown) if unknown else {}
        return [
            (seam, target)
            for seam, address in addresses.items()
            for target in self._local.get(address) or _targets_of(rows.get(address, b""))
        ]

    async def add(
        self, scope: Scope, kind: str, anchor: bytes, target: bytes, seconds: float
    ) -> None:
        """Remember that a checkpoint ends with the words of an anchor."""
        address = scope.address(self._store, f"{KIND}:{kind}", anchor)
        rows = await self._store.get_many(KIND, [address])
        known = {**dict.fromkeys(self._local.get(address) or ())}
        known |= dict.fromkeys(_targets_of(rows.get(address, b"")))
        known.pop(target, None)
        targets = (target, *known)[:MAX_TARGETS]
        self._local.put(address, targets)
        await self._store.put(KIND, address, b"".join(targets), seconds, scope.tenant)


def _targets_of(row: bytes) -> tuple[bytes, ...]:
    whole = len(row) - len(row) % ADDRESS_BYTES
    return tuple(row[at : at + ADDRESS_BYTES] for at in range(0, whole, ADDRESS_BYTES))
