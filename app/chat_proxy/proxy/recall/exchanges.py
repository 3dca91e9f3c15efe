"""Answers in which the model asked for earlier messages, as the upstream knows them.

The client has only the answer without the calls. When it sends the answer back, the calls and their
results are put in again, so that the prompt begins as the last one did.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from chat_proxy.caches import LruCache
from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.proxy.session.recognition.checkpoints import KEPT_SECONDS
from chat_proxy.proxy.session.recognition.history import History
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.store.base import Store
from chat_proxy.wires.own_calls.edit import Round

KIND = "recall"
VERSION = 1
MAX_BYTES = 1024 * 1024
"""A larger exchange is not kept: the client's history goes on without it."""
REMEMBERED_BYTES = 16 * 1024 * 1024


class Exchange(NamedTuple):
    """One answer to a client that was several answers of the upstream."""

    wire: str
    messages: int
    """How many messages of the conversation the answer is."""
    rounds: list[Round]


class Exchanges:
    """Find exchanges by the history that they end, in memory and in the shared store.

    Addresses are keyed by tenant, model and policy, so that no tenant finds another's. The newest
    ones, 16 MB of them, are in memory too, for when the store is away.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._recent: LruCache[bytes, bytes] = LruCache(REMEMBERED_BYTES)

    def key(self, scope: Scope, kind: str) -> bytes:
        """Return the key under which a scope's histories are hashed."""
        return scope.key(self._store, kind)

    async def keep(self, scope: Scope, history: History, at: int, exchange: Exchange) -> bool:
        """Keep an exchange by the hash of the history that ends with it, at an index."""
        value = serialise({**exchange._asdict(), "version": VERSION})
        if len(value) > MAX_BYTES:
            return False
        address = self._address(scope, history, at)
        self._recent.put(address, value, len(value))
        return await self._store.put(KIND, address, value, KEPT_SECONDS, scope.tenant)

    async def find(
        self, scope: Scope, history: History, answers: Sequence[int], wire: str
    ) -> dict[int, Exchange]:
        """Return the exchanges of an API that end at one of these indexes of a history."""
        addresses = {self._address(scope, history, at): at for at in answers}
        found = {key: value for key in addresses if (value := self._recent.get(key)) is not None}
        missing = [key for key in addresses if key not in found]
        if missing:
            found |= await self._store.get_many(KIND, missing)
        exchanges = {addresses[key]: _exchange_in(value) for key, value in found.items()}
        return {at: it for at, it in exchanges.items() if it is not None and it.wire == wire}

    def _address(self, scope: Scope, history: History, at: int) -> bytes:
        """Return the address of an exchange; those of one conversation are beside each other."""
        return scope.address(self._store, KIND, history.links[at], history.root_at(at + 1))


def _exchange_in(value: bytes) -> Exchange | None:
    """Return a stored exchange; None if another version of the proxy has written it."""
    document: dict[str, Any] = orjson.loads(value)
    if document.get("version") != VERSION:
        return None
    rounds = [Round(items, shown) for items, shown in document["rounds"]]
    return Exchange(document["wire"], document["messages"], rounds)
