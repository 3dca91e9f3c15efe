"""Recognising a changed history costs less than hashing it, however long it is."""

import json
from collections.abc import Callable
from time import thread_time

import pytest

from chat_proxy.compaction.recognition.align import covers
from chat_proxy.compaction.recognition.digests import Digester, cut_at
from chat_proxy.proxy.session.recognition.history import BYTES_PER_MESSAGE, INLINE_BYTES
from tests.unit.chat.shapes import Fields, call, image, says, turn, user
from tests.unit.proxy.session.recognition.histories import KEY, history

CLEARED = "[Old tool result content cleared]"
MOST_OF_HASHING = 0.5
MOST_SECONDS_INLINE = 0.1
ROUNDS = 7


def run(messages: int) -> list[Fields]:
    return [message for number in range(messages // 3) for message in turn(number)]


def best(work: Callable[[], object]) -> float:
    """Return the shortest time of work on this thread, whatever else the machine does."""
    seconds = []
    for _ in range(ROUNDS):
        start = thread_time()
        work()
        seconds.append(thread_time() - start)
    return min(seconds)


@pytest.mark.parametrize("length", [300, 999])
def test_anchors_and_alignment_take_less_than_half_of_hashing(length: int) -> None:
    covered = history(*run(length)).covered(length)
    messages = run(length)
    for message in messages[-60:-3]:
        if message["role"] == "tool":
            message["content"] = CLEARED
    given = history(*messages)

    def aligned() -> bool:
        given.anchors(length)
        return covers(covered, length, given.candidate(length), Digester(KEY))

    assert aligned()
    assert best(aligned) < MOST_OF_HASHING * best(lambda: history(*messages))


HOSTILE: dict[str, Callable[[], Fields]] = {
    "unknown parts": lambda: user([{"a": 1}] * (INLINE_BYTES // 8)),
    "media": lambda: user([image("x")] * (INLINE_BYTES // 50)),
    "blocks": lambda: user("<env></env>" * (INLINE_BYTES // 11)),
    "arguments": lambda: says(
        None, tool_calls=[call("1", json.dumps({str(n): [] for n in range(5_500)}))]
    ),
}


@pytest.mark.parametrize("made", HOSTILE.values(), ids=HOSTILE)
def test_what_is_hashed_without_a_thread_blocks_nobody(made: Callable[[], Fields]) -> None:
    message = made()

    assert len(json.dumps(message, separators=(",", ":"))) > 0.8 * INLINE_BYTES
    assert best(lambda: history(message)) < MOST_SECONDS_INLINE


def test_many_short_messages_without_a_thread_block_nobody() -> None:
    messages = [user("x")] * (INLINE_BYTES // BYTES_PER_MESSAGE)

    assert best(lambda: history(*messages)) < MOST_SECONDS_INLINE


@pytest.mark.parametrize(
    "piece",
    ["truncated ", "." * 100 + "\ntruncated", "[", "(omitted", "x" * 119 + ") truncated", "too "],
)
def test_a_note_is_looked_for_in_linear_time(piece: str) -> None:
    given = "x" + piece.replace("[", "]") * (1_000_000 // len(piece))
    start = thread_time()
    cut_at(given)

    assert thread_time() - start < 0.1
