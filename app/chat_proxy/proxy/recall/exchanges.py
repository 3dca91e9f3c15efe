"""Answers in which the model asked for earlier messages, as the upstream knows them.

The client has only the answer without the calls. When it sends the answer back, the calls and their
results are put in again, so that the prompt begins as the last one did.
"""

from collections.abc import Mapping
from typing import NamedTuple

import orjson

from chat_proxy.caches import LruCache
from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.proxy.session.recognition.checkpoints import KEPT_SECONDS
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.store.base import Store
from chat_proxy.wires.own_calls.edit import Round

KIND = "recall"
MAX_BYTES = 1024 * 1024
"""A larger exchange is not kept: the client's history goes on without it."""
REMEMBERED = 256


class Exchange(NamedTuple):
    """One answer to a client that was several answers of the upstream."""

    wire: str
    messages: int
    """How many messages of the conversation the answer is."""
    rounds: list[Round]


class Exchanges:
    """Find exchanges by the history that they end, in memory and in the shared store.

    Addresses are keyed by tenant, model and policy, so that no tenant finds another's. The newest
    256 are in memory too, for when the store is away.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._recent: LruCache[bytes, bytes] = LruCache(REMEMBERED)

    def key(self, scope: Scope, kind: str) -> bytes:
        """Return the key under which a scope's histories are hashed."""
        return scope.key(self._store, kind)

    async def keep(self, scope: Scope, link: bytes, exchange: Exchange) -> bool:
        """Keep an exchange by the hash of the history that ends with it."""
        value = serialise(exchange._asdict())
        if len(value) > MAX_BYTES:
            return False
        address = scope.address(self._store, KIND, link)
        self._recent.put(address, value)
        return await self._store.put(KIND, address, value, KEPT_SECONDS, scope.tenant)

    async def find(
        self, scope: Scope, links: Mapping[int, bytes], wire: str
    ) -> dict[int, Exchange]:
        """Return the exchanges of an API, each by the key that its hash has in `links`."""
        addresses = {scope.address(self._store, KIND, link): at for at, link in links.items()}
        found = {key: value for key in addresses if (value := self._recent.get(key)) is not None}
        missing = [key for key in addresses if key not in found]
        if missing:
            found |= await self._store.get_many(KIND, missing)
        exchanges = {addresses[key]: _exchange_in(value) for key, value in found.items()}
        return {at: it for at, it in exchanges.items() if it.wire == wire}


def _exchange_in(value: bytes) -> Exchange:
    document = orjson.loads(value)
    rounds = [Round(items, shown) for items, shown in document["rounds"]]
    return Exchange(document["wire"], document["messages"], rounds)
