import pytest

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.normal_form.volatile_blocks import VolatileBlocks
from chat_proxy.proxy.recall.exchanges import KIND, MAX_BYTES, Exchange, Exchanges
from chat_proxy.proxy.session.recognition.history import History, hashed_history
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.store.memory import MemoryStore
from chat_proxy.wires.own_calls.edit import Round

pytestmark = pytest.mark.anyio
SCOPE = Scope("a", b"policy")
EXCHANGE = Exchange("chat", 1, [Round([{"role": "assistant", "content": "x"}], 1)])


def history(exchanges: Exchanges, scope: Scope = SCOPE, *, more: int = 0) -> History:
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    said += [{"role": "user", "content": f"more {at}"} for at in range(more)]
    conversation = Conversation.of(said)
    assert conversation is not None
    return hashed_history(conversation, VolatileBlocks(()), exchanges.key(scope, "digests"))


async def test_an_exchange_is_found_in_the_longer_history_by_its_scope_only() -> None:
    exchanges = Exchanges(MemoryStore())
    await exchanges.keep(SCOPE, history(exchanges), 1, EXCHANGE)

    found = await exchanges.find(SCOPE, history(exchanges, more=5), [1], "chat")

    assert found == {1: EXCHANGE}
    for other in (Scope("b", b"policy"), Scope("a", b"other")):
        assert not await exchanges.find(other, history(exchanges, other), [1], "chat")
    assert not await exchanges.find(SCOPE, history(exchanges), [1], "messages")


async def test_one_that_is_too_large_is_not_kept() -> None:
    exchanges = Exchanges(MemoryStore())
    large = Exchange("chat", 1, [Round([{"content": "x" * MAX_BYTES}], 1)])

    assert not await exchanges.keep(SCOPE, history(exchanges), 1, large)


async def test_one_of_another_version_is_not_read() -> None:
    store = MemoryStore()
    exchanges = Exchanges(store)
    given = history(exchanges)
    address = SCOPE.address(store, KIND, given.links[1], given.root_at(2))
    await store.put(KIND, address, b'{"rounds": 7}', 60, "a")

    assert not await exchanges.find(SCOPE, given, [1], "chat")
