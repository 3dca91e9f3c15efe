"""Prompts are sealed and opened with the store's secret; a large one lies in the store."""

import random
import threading
import time
from typing import Any

import pytest

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.compaction.contracts import sealed as sealing
from chat_proxy.compaction.contracts.sealed import KEPT_SECONDS, PREFIX, content_of, seal
from chat_proxy.errors import InvalidCompactionItem
from chat_proxy.proxy.contracts import seals
from chat_proxy.proxy.contracts.seals import KIND, open_prompt, prompt_in, seal_body
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.store.memory import MemoryStore
from chat_proxy.wires.messages.wire import MESSAGES
from chat_proxy.wires.responses.wire import RESPONSES
from chat_proxy.wires.wire import Wire

pytestmark = pytest.mark.anyio
SECRET = b"secret of the deployment"
SCOPE = Scope("tenant", b"policy and model")
REFUSED_TEXTS = 10_000
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


async def test_a_prompt_that_the_store_does_not_take_is_carried_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(*_: Any) -> bool:
        return False

    noise = random.Random(3).randbytes(400_000).hex()
    store = await store_with()
    monkeypatch.setattr(store, "put", refuse)

    text = await sealed([{"role": "user", "content": noise}], store)

    opened = await open_prompt(text, RESPONSES, SCOPE, await store_with())
    assert opened.items[0]["content"] == noise


async def test_a_prompt_that_could_not_be_opened_again_is_not_sealed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sealing, "MAX_PLAIN_BYTES", 100)

    assert await sealed(ITEMS, await store_with()) == ""


async def test_no_prompt_is_opened_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short text may have been made of a very long one: all other tenants would wait for it."""
    threads = []

    def unseal(*given: Any) -> Any:
        threads.append(threading.current_thread())
        return sealing.unseal(*given)

    store = await store_with()
    text = await sealed(ITEMS, store)
    monkeypatch.setattr(seals, "unseal", unseal)

    await open_prompt(text, RESPONSES, SCOPE, store)

    assert threads
    assert threading.main_thread() not in threads


async def test_ten_thousand_foreign_cut_changed_and_stale_prompts_are_refused() -> None:
    """Of other tenants, models, policies, secrets and APIs, cut, changed, expired: all refused."""
    dice = random.Random(27)
    store, elsewhere, now = await store_with(), await store_with(b"another"), int(time.time())
    for number in range(REFUSED_TEXTS):
        with pytest.raises(InvalidCompactionItem):
            await open_prompt(
                unwanted(dice, number, now, store, elsewhere), RESPONSES, SCOPE, store
            )
    genuine = text_of(number=1, scope=SCOPE, store=store, created=now)

    assert (await open_prompt(genuine, RESPONSES, SCOPE, store)).items[0]["content"] == "Prompt 1."


def text_of(
    number: int, scope: Scope, store: MemoryStore, created: int, wire: Wire = RESPONSES
) -> str:
    """A prompt as the proxy seals it for a scope."""
    items = [{"role": "user", "content": f"Prompt {number}."}]
    prompt = prompt_in(serialise({wire.key: items}), wire, created, "So far.")
    return seal(content_of(prompt) or b"", scope.key(store, KIND), created)


def unwanted(
    dice: random.Random, number: int, now: int, store: MemoryStore, elsewhere: MemoryStore
) -> str:
    """A text that must not be opened."""
    stale = now - KEPT_SECONDS - dice.randrange(10**6)
    genuine = text_of(number, SCOPE, store, now)
    place = dice.randrange(len(PREFIX), len(genuine) - 1)
    other = "A" if genuine[place] != "A" else "B"
    unwanted_texts = (
        lambda: text_of(number, Scope(f"tenant {number}", SCOPE.fingerprint), store, now),
        lambda: text_of(number, Scope("tenant", SCOPE.fingerprint + b"other model"), store, now),
        lambda: text_of(number, Scope("tenant", b"other policy, model"), store, now),
        lambda: text_of(number, SCOPE, elsewhere, now),
        lambda: text_of(number, SCOPE, store, now, MESSAGES),
        lambda: text_of(number, SCOPE, store, stale),
        lambda: genuine[:place],
        lambda: genuine[:place] + other + genuine[place + 1 :],
    )
    return unwanted_texts[number % len(unwanted_texts)]()
