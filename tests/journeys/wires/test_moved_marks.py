"""Clients move cache marks from message to message: it is the same history all the same."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from chat_proxy.wires.messages.wire import MESSAGES
from chat_proxy.wires.responses.wire import RESPONSES
from tests.journeys.summaries.in_process import House, open_house
from tests.journeys.wires.desk import open_desk
from tests.support.wires.talks import Step, messages_body, responses_body

Fields = dict[str, Any]
MARK = {"type": "ephemeral", "ttl": "1h"}
STEPS = [Step(("function",), size=1_500, thinks=True, reminds=bool(at % 2)) for at in range(24)]
WINDOW = 8_192


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as house:
        yield house


def unmarked(value: Any) -> Any:
    """Return a value without any mark."""
    if type(value) is list:
        return [unmarked(each) for each in value]
    if type(value) is not dict:
        return value
    return {key: unmarked(each) for key, each in value.items() if key != "cache_control"}


def marked_at(body: Fields, *places: int) -> Fields:
    """Return a request whose only marks are on the last blocks of these messages."""
    changed: Fields = unmarked(deepcopy(body))
    for place in places:
        message = changed["messages"][place]
        if type(message["content"]) is str:
            message["content"] = [{"type": "text", "text": message["content"]}]
        message["content"][-1]["cache_control"] = MARK
    return changed


@pytest.mark.parametrize("places", [(0,), (0, 1), (2, 3), (1, -1), (5, -2, -3), ()])
def test_a_history_whose_marks_moved_is_recognised(house: House, places: tuple[int, ...]) -> None:
    """BUGS 40: marks on instructions in the middle, calls, results, and on none."""
    with open_desk(house, MESSAGES, WINDOW) as desk:
        first = desk.ask(messages_body(STEPS[:20]))
        desk.writer.asked.clear()
        again = desk.ask(marked_at(messages_body(STEPS[:21]), *places))

    assert (first.record.compaction, again.record.compaction) == ("built", "reused")
    assert unmarked(again.body["messages"][:-2]) == unmarked(first.body["messages"])
    assert desk.writer.asked == []


def test_a_history_of_another_client_is_another_one(house: House) -> None:
    with open_desk(house, MESSAGES, WINDOW) as desk:
        desk.ask(messages_body(STEPS[:20]))
        other = messages_body(STEPS[:21])
        other["messages"][3]["content"][0]["content"] = "something else " * 100
        asked = desk.ask(other)

    assert asked.record.compaction == "built"


def test_a_history_of_items_is_recognised(house: House) -> None:
    with open_desk(house, RESPONSES, WINDOW) as desk:
        first = desk.ask(responses_body(STEPS[:20]))
        again = desk.ask(responses_body(STEPS[:21]))

    assert (first.record.compaction, again.record.compaction) == ("built", "reused")
    assert again.body["input"][: len(first.body["input"])] == first.body["input"]


def test_reasoning_that_a_client_drops_makes_no_other_history(house: House) -> None:
    """Thoughts of older turns are left out by many clients."""
    later = messages_body(STEPS[:21])
    for message in later["messages"]:
        if message["role"] == "assistant":
            message["content"] = [it for it in message["content"] if "thinking" not in it["type"]]
    with open_desk(house, MESSAGES, WINDOW) as desk:
        desk.ask(messages_body(STEPS[:20]))
        again = desk.ask(later)

    assert again.record.compaction == "reused"
