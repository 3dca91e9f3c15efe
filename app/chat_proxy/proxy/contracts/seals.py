"""Seal the prompt of a compacted request for its client, and open what a client sends back."""

import asyncio
import json
import time
from typing import Any, Final

from chat_proxy.compaction.contracts.sealed import (
    KEPT_SECONDS,
    Refused,
    StoredPrompt,
    content_of,
    digest_of,
    read_stored,
    seal,
    unseal,
)
from chat_proxy.errors import InvalidCompactionItem
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.store.base import Store
from chat_proxy.wires.contracts.contract import SealedPrompt
from chat_proxy.wires.wire import Wire

KIND: Final = "sealed"
MAX_CARRIED_BYTES: Final = 256 * 1024
"""The longest compressed prompt that a client carries itself if the store can take it."""
INLINE_BYTES: Final = 64 * 1024
"""A prompt up to this size is sealed without a thread."""
_INSTRUCTING: Final = ("system", "developer")


async def seal_body(body: bytes, wire: Wire, scope: Scope, store: Store, text: str = "") -> str:
    """Return the prompt of a request body, sealed for its tenant, model and policy.

    `text` is what the client is told of it. A large prompt is stored; the client carries it all the
    same if the store does not take it. Empty if it is too long to be opened again.
    """
    key, now = scope.key(store, KIND), int(time.time())

    def work() -> bytes | None:
        return content_of(prompt_in(body, wire, now, text))

    content = await run_inline_or_in_thread(work, len(body), INLINE_BYTES)
    if content is None:
        return ""
    is_stored = False
    if len(content) > MAX_CARRIED_BYTES:
        address = scope.address(store, KIND, digest_of(content))
        is_stored = await store.put(KIND, address, content, KEPT_SECONDS, scope.tenant)
    return seal(content, key, now, is_stored=is_stored)


async def open_prompt(text: str, wire: Wire, scope: Scope, store: Store) -> SealedPrompt:
    """Return the prompt that a client sends back, or raise InvalidCompactionItem."""
    # Never on the event loop: a short text may have been made of a very long one.
    opened = await asyncio.to_thread(unseal, text, scope.key(store, KIND), int(time.time()))
    if isinstance(opened, StoredPrompt):
        address = scope.address(store, KIND, opened.digest)
        rows = await store.get_many(KIND, [address])
        opened = await asyncio.to_thread(read_stored, rows.get(address), opened.digest)
    if isinstance(opened, SealedPrompt) and opened.wire != wire.name:
        opened = Refused("it was made for another API.")
    if isinstance(opened, Refused):
        raise InvalidCompactionItem(f"The compaction item cannot be used: {opened.reason}")
    return opened


def prompt_in(body: bytes, wire: Wire, now: int, text: str) -> SealedPrompt:
    """Return the prompt of a request body, to be sealed."""
    items: Any = json.loads(body)[wire.key]
    if type(items) is str:
        items = [wire.new_item({"role": "user", "content": items})]
    leading = 0
    while leading < len(items) and items[leading].get("role") in _INSTRUCTING:
        leading += 1
    return SealedPrompt(wire.name, tuple(items[leading:]), tuple(items[:leading]), now, text)
