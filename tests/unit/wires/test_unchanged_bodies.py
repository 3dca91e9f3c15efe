"""What is not changed is not rewritten: a thousand odd bodies of each wire."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.errors import BadRequest
from chat_proxy.routes.read_request import read_any_wire
from chat_proxy.wires.body import body_with
from chat_proxy.wires.messages.wire import MESSAGES
from chat_proxy.wires.responses.wire import RESPONSES
from chat_proxy.wires.wire import Wire
from tests.support.odd_json import MESSAGES_ITEMS, RESPONSES_ITEMS, bodies
from tests.support.wires.talks import STEPS, messages_body, responses_body
from tests.unit.wires.writing import LIMITS, only, request_of

EXAMPLES = 1_000
MOST = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check_unchanged(wire: Wire, body: bytes) -> None:
    """Check that a conversation of the same messages, and each part of it, can be written."""
    request = request_of(wire, body)
    read = request.conversation
    if read is None:
        return
    assert body_with(request, read, Conversation(read.messages, read.origins)) == body
    copied = read.with_messages(
        {at: it.with_content(it.content) for at, it in enumerate(read.messages)}
    )
    before, after = json.loads(body.decode("utf-8-sig")), body_with(request, read, copied)
    assert json.loads(after)["model"] == before["model"]
    for at in range(len(read)):
        json.loads(body_with(request, read, only(at)(read)))


@MOST
@given(request=bodies("input", RESPONSES_ITEMS))
def test_a_body_of_responses_is_not_rewritten(request: tuple[bytes, bool]) -> None:
    check_unchanged(RESPONSES, request[0])


@MOST
@given(request=bodies("messages", MESSAGES_ITEMS))
def test_a_body_of_messages_is_not_rewritten(request: tuple[bytes, bool]) -> None:
    check_unchanged(MESSAGES, request[0])


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@settings(max_examples=100, deadline=None)
@given(steps=st.lists(STEPS, max_size=6))
def test_each_message_that_stays_keeps_its_bytes(
    separators: tuple[str, str], steps: list[Any]
) -> None:
    """Whatever is dropped before it."""
    for wire, made in ((MESSAGES, messages_body(steps)), (RESPONSES, responses_body(steps))):
        body = json.dumps(made, separators=separators).encode()
        request = request_of(wire, body)
        read = request.conversation
        assert read is not None

        for group in read.groups:
            kept = only(
                *range(read.instructions), *range(max(group.start, read.instructions), len(read))
            )
            written = body_with(request, read, kept(read))
            for item in json.loads(written)[wire.key]:
                text = json.dumps(item, separators=separators).encode()
                assert text in written or item not in made[wire.key]


@MOST
@given(body=bodies("messages", MESSAGES_ITEMS) | bodies("input", RESPONSES_ITEMS))
def test_the_wire_of_any_body_is_recognised_without_an_error(body: tuple[bytes, bool]) -> None:
    read_any_wire(body[0], LIMITS)


@pytest.mark.parametrize(
    "document", ["[]", "5", '{"messages": 5}', '{"messages": [5], "input": 5}']
)
def test_a_body_of_no_wire_is_refused_or_passed(document: str) -> None:
    try:
        request = read_any_wire(document.encode(), LIMITS)
    except BadRequest:
        return
    assert request.conversation is None


LONG = 123456789012345678901234567890
SHORT = {"max_tokens": 5, "max_completion_tokens": 5, "max_output_tokens": 5}
TOOL = {
    "type": "function",
    "function": {"name": "look_up", "description": "Find.", "parameters": {"type": "object"}},
}


@pytest.mark.parametrize("change", [{"output": SHORT}, {"tool": TOOL}], ids=["output", "tool"])
@pytest.mark.parametrize(
    "said",
    [
        {"messages": [{"role": "user", "content": "Hi"}]},
        {"input": "Hi"},
        {"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]},
    ],
    ids=["chat", "responses", "messages"],
)
def test_other_fields_keep_every_digit_when_a_limit_or_a_tool_changes(
    said: dict[str, Any], change: dict[str, Any]
) -> None:
    """FAULTS A6: an upstream refuses a float where it wants an integer."""
    schema = {"type": "object", "properties": {"id": {"type": "integer", "maximum": LONG}}}
    given = {**said, "seed": LONG, "max_tokens": 9, "max_output_tokens": 9}
    given["tools"] = [{"name": "find", "input_schema": schema, "parameters": schema}]
    request = read_any_wire(json.dumps({"model": "fake", **given}).encode(), LIMITS)
    read = request.conversation
    assert read is not None

    written = json.loads(body_with(request, read, read, **change))

    assert written["seed"] == LONG
    assert written["tools"][0] == given["tools"][0]
    assert written != json.loads(request.body)
