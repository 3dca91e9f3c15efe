"""Recognising a changed history costs less than hashing it, however long it is."""

from collections.abc import Callable
from time import perf_counter

import pytest

from chat_proxy.compaction.recognition.align import covers
from chat_proxy.compaction.recognition.digests import Digester, cut_at
from tests.unit.chat.shapes import Fields, turn
from tests.unit.proxy.session.recognition.histories import KEY, history

CLEARED = "[Old tool result content cleared]"
MOST_OF_HASHING = 0.5
ROUNDS = 7


def run(messages: int) -> list[Fields]:
    return [message for number in range(messages // 3) for message in turn(number)]


def best(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        start = perf_counter()
        work()
        seconds.append(perf_counter() - start)
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


@pytest.mark.parametrize(
    "piece",
    ["truncated ", "." * 100 + "\ntruncated", "[", "(omitted", "x" * 119 + ") truncated", "too "],
)
def test_a_note_is_looked_for_in_linear_time(piece: str) -> None:
    given = "x" + piece.replace("[", "]") * (1_000_000 // len(piece))
    start = perf_counter()
    cut_at(given)

    assert perf_counter() - start < 1
