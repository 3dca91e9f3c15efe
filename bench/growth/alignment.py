"""Time to recognise a history whose client has replaced some results, as it grows."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from bench.progress import tell
from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.normal_form.volatile_blocks import VolatileBlocks
from chat_proxy.compaction.recognition.align import covers
from chat_proxy.compaction.recognition.digests import Digester
from chat_proxy.proxy.session.recognition.history import History, hashed_history

LENGTHS = (100, 500, 1_000, 2_000)
ROUNDS = 9
KEY = b"growth".ljust(32, b".")
PRUNED = 40
"""How many messages at the end of the covered ones have their results pruned."""
PLACEHOLDER = "[Old tool result content cleared]"


class Cost(NamedTuple):
    """Microseconds of one request, the best of some rounds."""

    hashing: float
    aligning: float


def measure() -> dict[int, Cost]:
    """Return the cost of recognition by the number of messages."""
    costs = {}
    for length in LENGTHS:
        tell(f"aligning {length} messages")
        costs[length] = _cost(length)
    return costs


def _cost(length: int) -> Cost:
    covered = _history(_messages(length)).covered(length)
    messages = _messages(length)
    for message in messages[-PRUNED:-4]:
        if message["role"] == "tool":
            message["content"] = PLACEHOLDER
    changed = _history(messages)

    def align() -> None:
        changed.anchors(length)
        assert covers(covered, length, changed.candidate(length), Digester(KEY))

    return Cost(_best(lambda: _history(messages)), _best(align))


def _best(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds) * 1e6


def _history(messages: list[dict[str, Any]]) -> History:
    conversation = Conversation.of(messages)
    assert conversation is not None
    return hashed_history(conversation, VolatileBlocks(("env",)), KEY)


def _messages(length: int) -> list[dict[str, Any]]:
    return [message for number in range(length // 4) for message in _step(number)]


def _step(number: int) -> list[dict[str, Any]]:
    function = {"name": "read", "arguments": f'{{"path": "{number}.py"}}'}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "user", "content": f"Question {number}: " + "what is in it? " * 20},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": f"line {number}\n" * 200},
        {"role": "assistant", "content": f"Answer {number}: " + "this is in it. " * 20},
    ]
