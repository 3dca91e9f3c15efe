"""The wire of a path or of a body."""

from typing import Any

import pytest

from chat_proxy.wires.recognise import wire_of_body, wire_of_path
from tests.support.wires.apis import APIS, Api
from tests.support.wires.talks import Step, messages_body, responses_body


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/chat/completions", "chat"),
        ("/v1/responses", "responses"),
        ("/v1/responses/compact", "responses"),
        ("/v1/messages", "messages"),
        ("/v1/messages/count_tokens", "messages"),
        ("/v1/models", "chat"),
    ],
)
def test_a_path_has_a_wire(path: str, name: str) -> None:
    assert wire_of_path(path).name == name


@pytest.mark.parametrize("api", APIS, ids=str)
def test_a_small_request_is_recognised_where_it_can_be(api: Api) -> None:
    found = wire_of_body(api.request).name

    assert found == ("responses" if api.name == "responses" else "chat")


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (responses_body([Step(("function",))]), "responses"),
        (messages_body([Step(("function",))]), "messages"),
        ({"messages": messages_body([Step(("function",))])["messages"]}, "messages"),
        ({"messages": [], "system": "Be kind."}, "messages"),
        (
            {"messages": [{"role": "user", "content": "Hi"}], "tools": [{"input_schema": {}}]},
            "messages",
        ),
        ({"messages": [{"role": "assistant", "tool_calls": []}], "tools": [5]}, "chat"),
        ({"messages": [{"content": [{"type": {}}, 5]}]}, "chat"),
        ({"messages": 5}, "chat"),
        ({}, "chat"),
    ],
)
def test_a_body_has_the_wire_that_it_was_written_for(body: dict[str, Any], name: str) -> None:
    assert wire_of_body(body).name == name
