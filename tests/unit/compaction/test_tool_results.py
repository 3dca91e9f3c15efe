"""The tool results of a conversation."""

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.ageing.treatments import Place
from chat_proxy.compaction.tool_results import tool_results
from tests.unit.chat.shapes import conversation, image, result, says, text, user
from tests.unit.compaction.examples import embedded, tool_step


def test_results_are_found_with_their_place_tool_and_texts() -> None:
    given = conversation(
        user(),
        *tool_step("1", "bash", [text("one"), image(), text("two")]),
        says(f"a {embedded('f', 'three')} b {embedded('g', 'four')}"),
        {"role": "function", "name": "h", "content": "five"},
    )

    assert [(it.index, it.place, it.name, it.texts) for it in tool_results(given)] == [
        (2, Place(2), "bash", ("one", "two")),
        (3, Place(3, 0), "f", ("three",)),
        (3, Place(3, 1), "g", ("four",)),
        (4, Place(4), "h", ("five",)),
    ]


def test_a_place_is_counted_in_the_clients_list() -> None:
    given = conversation(user(), result("1"), user(), result("2")).only([2, 3])

    assert [(it.index, it.place) for it in tool_results(given)] == [(1, Place(3))]


def test_a_result_that_the_client_did_not_send_is_left_out() -> None:
    given = conversation(result("1"), result("2"))

    assert [it.index for it in tool_results(Conversation(given.messages, [None, 0]))] == [1]
