"""Prompts are sealed and opened with the store's secret; a large one lies in the store."""

import random

import pytest

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.errors import InvalidCompactionItem
from chat_proxy.proxy.contracts.seals import open_prompt, seal_body
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.store.memory import MemoryStore
from chat_proxy.wires.messages.wire import MESSAGES
from chat_proxy.wires.responses.wire import RESPONSES

pytestmark = pytest.mark.anyio
SECRET = b"secret of the deployment"
SCOPE = Scope("tenant", b"policy and model")
ITEMS = [
    {"role": "developer", "content": "Rules."},
    {"role": "user", "content": "Summary."},
    {"role": "system", "content": "A late word."},
]


async def store_with(secret: bytes = SECRET) -> MemoryStore:
    store = MemoryStore(secret)
    await store.open()
    return store


async def sealed(items: object, store: MemoryStore, scope: Scope = SCOPE) -> str:
    body = serialise({"model": "m", "input": items})
    return await seal_body(body, RESPONSES, scope, store, "So far.")


async def test_leading_instructions_are_kept_apart() -> None:
    opened = await open_prompt(
        await sealed(ITEMS, await store_with()), RESPONSES, SCOPE, await store_with()
    )

    assert list(opened.instructions) == ITEMS[:1]
    assert list(opened.items) == ITEMS[1:]
    assert opened.text == "So far."


async def test_a_text_becomes_a_message() -> None:
    store = await store_with()

    opened = await open_prompt(await sealed("Hi", store), RESPONSES, SCOPE, store)

    assert opened.items == ({"type": "message", "role": "user", "content": "Hi"},)


@pytest.mark.parametrize(
    "scope", [Scope("other", SCOPE.fingerprint), Scope(SCOPE.tenant, b"other policy or model")]
)
async def test_another_owner_cannot_open_it(scope: Scope) -> None:
    store = await store_with()
    text = await sealed(ITEMS, store)

    with pytest.raises(InvalidCompactionItem, match="could not be verified"):
        await open_prompt(text, RESPONSES, scope, store)


async def test_another_api_cannot_open_it() -> None:
    store = await store_with()
    text = await sealed(ITEMS, store)

    with pytest.raises(InvalidCompactionItem, match="another API"):
        await open_prompt(text, MESSAGES, SCOPE, store)


async def test_a_large_prompt_is_found_in_the_store_and_nowhere_else() -> None:
    noise = random.Random(2).randbytes(400_000).hex()
    store = await store_with()

    text = await sealed([{"role": "user", "content": noise}], store)

    assert len(text) < 200
    opened = await open_prompt(text, RESPONSES, SCOPE, store)
    assert opened.items[0]["content"] == noise
    with pytest.raises(InvalidCompactionItem, match="no longer stored"):
        await open_prompt(text, RESPONSES, SCOPE, await store_with())
