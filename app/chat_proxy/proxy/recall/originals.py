"""Collect what the model of one request can ask for: its client's messages, and stored ones."""

from collections.abc import Mapping, Sequence

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.chat.tool_names import ResultCall, call_of_results
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.recall.recallable import Recallable
from chat_proxy.compaction.recall.references import TOOL_NAME
from chat_proxy.compaction.tool_results import rendered_texts
from chat_proxy.proxy.session.offloads import Offloads
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.session.stored_history import stored_messages


async def recallable_of(
    compaction: CompactionRequest, result: CompactionResult, offloads: Offloads
) -> Recallable:
    """Return the messages by their ids.

    Nearly all are in the request itself. Those that the client has dropped since they were folded
    come from the store, where only their tenant finds them.
    """
    client = compaction.conversation
    missing = result.checkpoint.missing if result.checkpoint else 0
    stored = await _dropped(compaction.tenant, result.checkpoint, missing, offloads)
    first = client.instructions
    calls = {index + missing: call for index, call in call_of_results(client).items()}
    own = _own_calls(client.messages, calls, missing)
    messages = {
        index + missing: message
        for index, message in enumerate(client.messages)
        if index >= first and index + missing not in own
    }
    visible = frozenset(map(id, result.conversation.fields))
    hidden = frozenset(at for at, it in messages.items() if id(it.fields) not in visible)
    before = {at: it for at, it in stored.items() if at not in messages}
    return Recallable(
        {**before, **messages},
        {**_calls_of_stored(before), **calls},
        hidden=hidden | before.keys(),
        expired=frozenset(range(first, first + missing)) - before.keys() - messages.keys(),
    )


def offload_number(
    compaction: CompactionRequest, result: CompactionResult, offloads: Offloads, name: str
) -> int | None:
    """Return the number of the message whose tool result a note names by an offload id."""
    missing = result.checkpoint.missing if result.checkpoint else 0
    for index, message in enumerate(compaction.conversation.messages):
        if message.is_tool_result:
            texts = rendered_texts(message)
            candidates = {*texts, "\n".join(texts)}
            if any(offloads.id_of(compaction.tenant, text) == name for text in candidates):
                return index + missing
    return None


def _own_calls(
    messages: Sequence[Message], calls: Mapping[int, ResultCall], missing: int
) -> frozenset[int]:
    """Return the numbers of earlier recalls: what they returned is found where it came from."""
    results = {at for at, call in calls.items() if call.tool == TOOL_NAME}
    asked = {
        index + missing
        for index, message in enumerate(messages)
        if message.calls_tools and not message.content and index + missing + 1 in results
    }
    return frozenset(results | asked)


async def _dropped(
    tenant: str, checkpoint: Checkpoint | None, missing: int, offloads: Offloads
) -> dict[int, Message]:
    """Return the stored messages of a history whose oldest messages the client has dropped."""
    if checkpoint is None or not missing:
        return {}
    stored = await stored_messages(tenant, checkpoint.sources, offloads)
    # Without one of the spans the numbers of those behind it are not known.
    return {} if stored.expired else dict(enumerate(map(Message, stored.messages)))


def _calls_of_stored(messages: Mapping[int, Message]) -> dict[int, ResultCall]:
    numbers = sorted(messages)
    calls = call_of_results(Conversation([messages[number] for number in numbers]))
    return {numbers[index]: call for index, call in calls.items()}
