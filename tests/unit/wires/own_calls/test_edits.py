"""What the clients of each API see of answers with calls of the proxy's own tool."""

import json
from typing import Any

import pytest

from chat_proxy.wires.chat_completions import CHAT_COMPLETIONS
from chat_proxy.wires.messages.wire import MESSAGES
from chat_proxy.wires.own_calls.edit import Round, object_in
from chat_proxy.wires.responses.wire import RESPONSES
from chat_proxy.wires.wire import Wire
from tests.support.recall_model import (
    RECALL,
    Answer,
    Calls,
    Says,
    chat_form,
    messages_form,
    recall,
    responses_form,
)

FORMS = {"chat": chat_form, "responses": responses_form, "messages": messages_form}
WIRES: dict[str, Wire] = {"chat": CHAT_COMPLETIONS, "responses": RESPONSES, "messages": MESSAGES}
wires = pytest.mark.parametrize("wire", WIRES)
READ = Calls("read_file", {"path": "README.md"}, "call_own")


def streamed(wire: str, *answers: Answer, size: int = 10**6) -> tuple[bytes, Any]:
    """What a client gets of some answers of the upstream, fed in pieces of a size."""
    edit = WIRES[wire].own_calls(RECALL)
    seen = b""
    for number, answer in enumerate(answers):
        if number:
            edit.next_round()
        stream = b"".join(FORMS[wire](answer, 100 + number)[1])
        for at in range(0, len(stream), size):
            seen += edit.feed(stream[at : at + size])
        seen += edit.end()
    return seen, edit


@wires
def test_a_stream_without_calls_keeps_its_bytes(wire: str) -> None:
    answer: Answer = [Says("It is 5."), READ]

    seen, _ = streamed(wire, answer)

    assert seen == b"".join(FORMS[wire](answer, 100)[1])


@wires
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_the_pieces_of_a_stream_do_not_matter(wire: str, size: int) -> None:
    answers: list[Answer] = [[Says("I look. "), recall(5)], [Says("It is 5."), READ]]

    assert streamed(wire, *answers, size=size)[0] == streamed(wire, *answers)[0]


@wires
def test_the_end_is_held_until_it_is_asked_for(wire: str) -> None:
    edit = WIRES[wire].own_calls(RECALL)
    stream = b"".join(FORMS[wire]([recall(5), READ], 100)[1])

    before = edit.feed(stream)

    ends = {"chat": b"[DONE]", "responses": b"response.completed", "messages": b"message_stop"}
    assert ends[wire] not in before
    assert ends[wire] in edit.end()


@wires
def test_an_error_within_an_answer_passes_and_ends_it(wire: str) -> None:
    error: dict[str, Any] = {"error": {"message": "broken"}}
    error |= {"type": "error"} if wire != "chat" else {}
    edit = WIRES[wire].own_calls(RECALL)
    edit.feed(b"".join(FORMS[wire]([recall(5)], 100)[1]))

    seen = edit.feed(b"data: " + json.dumps(error).encode() + b"\n\n") + edit.end()

    assert b"broken" in seen
    assert not edit.goes_on


def test_a_search_of_the_upstream_itself_does_not_end_the_answer() -> None:
    """A web search is carried out by the upstream: the client has nothing to answer."""
    edit = RESPONSES.own_calls(RECALL)
    document = responses_form([recall(5)], 100)[0]
    document["output"].insert(0, {"type": "web_search_call", "id": "ws_1", "status": "completed"})

    edit.whole(json.dumps(document).encode())

    assert edit.goes_on
    assert edit.shown == 1


def test_a_stored_response_has_the_id_of_the_last_one() -> None:
    """`previous_response_id` must name the one that the upstream has the whole history of."""
    edit = RESPONSES.own_calls(RECALL)
    first, last = responses_form([recall(5)], 100)[0], responses_form([Says("5.")], 200)[0]
    edit.whole(json.dumps({**first, "store": True}).encode())
    edit.next_round()

    seen = json.loads(edit.whole(json.dumps({**last, "store": True}).encode()))

    assert seen["id"] == "resp_200"


def test_what_an_upstream_adds_to_a_call_goes_back_to_it() -> None:
    """Some refuse a call without the signature of the thought that led to it."""
    edit = CHAT_COMPLETIONS.own_calls(RECALL)
    document = chat_form([recall(5)], 100)[0]
    message = document["choices"][0]["message"]
    message["tool_calls"][0]["extra_content"] = {"signature": "s"}
    message["reasoning_details"] = [{"type": "reasoning.encrypted", "data": "d"}]

    edit.whole(json.dumps(document).encode())

    (said,) = edit.said()
    assert said["tool_calls"][0]["extra_content"] == {"signature": "s"}
    assert said["reasoning_details"] == message["reasoning_details"]


def test_empty_texts_of_the_model_are_not_sent_back() -> None:
    edit = MESSAGES.own_calls(RECALL)

    edit.whole(json.dumps(messages_form([Says(""), recall(5)], 100)[0]).encode())

    (said,) = edit.said()
    assert [block["type"] for block in said["content"]] == ["tool_use"]
    assert edit.shown == 0


@wires
def test_another_answer_than_the_one_that_was_given_is_not_restored(wire: str) -> None:
    items: dict[str, list[dict[str, Any]]] = {
        "chat": [{"role": "assistant", "content": "Something else."}],
        "responses": [],
        "messages": [{"role": "assistant", "content": ""}],
    }
    seen = {"role": "assistant", "content": "I look. ", "tool_calls": []}

    assert WIRES[wire].restored(items[wire], [Round([seen], 1)]) is None


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [('{"id": "r5"}', '{"id": "r5"}'), ("[1]", "{}"), ("{", "{}"), (None, "{}"), ("", "{}")],
)
def test_arguments_are_sent_back_as_an_object(arguments: str | None, sent: str) -> None:
    assert object_in(arguments) == sent
