"""Seal the prompt of a compacted request for its client, and open what a client sends back."""

import json
import time
from dataclasses import replace
from functools import partial
from typing import Any, Final

from chat_proxy.compaction.contracts.sealed import (
    KEPT_SECONDS,
    MAX_INLINE_BYTES,
    Refused,
    Sealing,
    StoredPrompt,
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
INLINE_BYTES: Final = 64 * 1024
"""A prompt up to this size is sealed and opened without a thread."""
_INSTRUCTING: Final = ("system", "developer")


async def seal_body(
    body: bytes, wire: Wire, counts: tuple[int, int], scope: Scope, store: Store, text: str = ""
) -> str:
    """Return the prompt of a request body, sealed for its tenant, model and policy.

    `counts` are the client's messages that it stands for, and its tokens; `text` is what the client
    is told of them. A prompt that is too
    large for the client to carry is stored.
    """
    key, now = scope.key(store, KIND), int(time.time())

    def work() -> Sealing:
        return seal(replace(prompt_in(body, wire, *counts, now), text=text), key)

    sealing = await run_inline_or_in_thread(work, len(body), INLINE_BYTES)
    if sealing.stored:
        address = scope.address(store, KIND, sealing.digest)
        await store.put(KIND, address, sealing.stored, KEPT_SECONDS, scope.tenant)
    return sealing.text


async def open_prompt(text: str, wire: Wire, scope: Scope, store: Store) -> SealedPrompt:
    """Return the prompt that a client sends back, or raise InvalidCompactionItem."""
    work = partial(unseal, text, scope.key(store, KIND), int(time.time()))
    opened = await run_inline_or_in_thread(work, len(text), INLINE_BYTES)
    if isinstance(opened, StoredPrompt):
        address = scope.address(store, KIND, opened.digest)
        rows = await store.get_many(KIND, [address])
        read = partial(read_stored, rows.get(address), opened.digest)
        opened = await run_inline_or_in_thread(read, MAX_INLINE_BYTES, INLINE_BYTES)
    if isinstance(opened, SealedPrompt) and opened.wire != wire.name:
        opened = Refused("it was made for another API.")
    if isinstance(opened, Refused):
        raise InvalidCompactionItem(f"The compaction item cannot be used: {opened.reason}")
    return opened


def prompt_in(body: bytes, wire: Wire, messages: int, tokens: int, now: int) -> SealedPrompt:
    """Return the prompt of a request body, to be sealed."""
    items: Any = json.loads(body)[wire.key]
    if type(items) is str:
        items = [wire.new_item({"role": "user", "content": items})]
    leading = 0
    while leading < len(items) and items[leading].get("role") in _INSTRUCTING:
        leading += 1
    return SealedPrompt(
        wire.name,
        tuple(items[leading:]),
        tuple(items[:leading]),
        messages,
        tokens,
        now,
    )
