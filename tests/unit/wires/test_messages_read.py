"""Every block of a Messages request becomes a part of the conversation."""

from typing import Any

import pytest

from chat_proxy.wires.messages.wire import MESSAGES
from tests.unit.wires.writing import Fields, conversation_of, messages_of, request_of

REMINDER = {"type": "text", "text": "<system-reminder>\nBe brief.\n</system-reminder>\n"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln=="}
REDACTED = {"type": "redacted_thinking", "data": "c2VhbGVk"}


def text(words: str, **more: Any) -> Fields:
    return {"type": "text", "text": words, **more}


def tool_use(name: str, **arguments: Any) -> Fields:
    return {"type": "tool_use", "id": name, "name": "Read", "input": arguments}


def tool_result(name: str, content: Any = "done", **more: Any) -> Fields:
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


def user(*blocks: Fields) -> Fields:
    return {"role": "user", "content": list(blocks)}


def says(*blocks: Fields) -> Fields:
    return {"role": "assistant", "content": list(blocks)}


def read(*messages: Fields, **fields: Any) -> list[Fields]:
    return messages_of(MESSAGES, {"messages": list(messages), **fields})


@pytest.mark.parametrize("system", ["Be kind.", [text("Be"), text("kind.", cache_control={})]])
def test_the_system_prompt_comes_first(system: Any) -> None:
    assert read(user(text("Hi")), system=system)[0] == {"role": "system", "content": system}


def test_a_system_message_in_the_middle_is_no_instruction_that_stays() -> None:
    body = {
        "system": "Be kind.",
        "messages": [user(text("Hi")), {"role": "system", "content": "Now."}, says(text("Well."))],
    }

    conversation = conversation_of(MESSAGES, body)

    assert conversation.instructions == 1
    assert len(conversation.turns) == 1


def test_thoughts_and_server_tools_stay_with_what_was_said() -> None:
    used = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}

    (message,) = read(says(THINKING, REDACTED, used, found, text("Well."), tool_use("a", path="x")))

    assert message["content"] == [THINKING, REDACTED, used, found, text("Well.")]
    (call,) = message["tool_calls"]
    assert call["id"] == "a"
    assert call["function"] == {"name": "Read", "arguments": '{"path":"x"}'}


def test_one_text_is_just_a_text() -> None:
    (message,) = read(says(text("Well.", cache_control={"type": "ephemeral"})))

    assert message == {"role": "assistant", "content": "Well."}


def test_each_result_is_a_message_and_so_is_what_the_user_says_behind_them() -> None:
    messages = read(user(tool_result("a"), tool_result("b", [text("x"), IMAGE]), text("Mind it.")))

    assert messages == [
        {"role": "tool", "tool_call_id": "a", "content": "done"},
        {"role": "tool", "tool_call_id": "b", "content": [text("x"), IMAGE]},
        {"role": "user", "content": [text("Mind it.")]},
    ]


def test_parallel_results_stay_with_their_calls() -> None:
    body = {
        "messages": [
            user(text("Hi")),
            says(tool_use("a"), tool_use("b")),
            user(tool_result("b"), tool_result("a"), text("Go on.")),
        ]
    }

    groups = conversation_of(MESSAGES, body).groups

    assert [(group.start, group.end) for group in groups] == [(0, 1), (1, 4), (4, 5)]


def test_a_reminder_behind_a_result_begins_no_turn() -> None:
    """Else the result, and the question that led to it, would be those of an older turn."""
    body = {"messages": [user(text("Hi")), says(tool_use("a")), user(tool_result("a"), REMINDER)]}

    conversation = conversation_of(MESSAGES, body)

    assert [(turn.start, turn.end) for turn in conversation.turns] == [(0, 3)]
    assert conversation.messages[2].content == [text("done"), REMINDER]


def test_a_result_without_content_is_empty() -> None:
    (message,) = read(user({"type": "tool_result", "tool_use_id": "a"}))

    assert message["content"] == ""


def test_images_and_documents_in_results_are_media() -> None:
    pdf = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="},
    }
    body = {"messages": [user(tool_result("a", [text("x"), IMAGE, pdf]))]}

    (message,) = conversation_of(MESSAGES, body).messages

    assert [medium.kind for medium in message.media()] == ["image", "document"]


def test_a_document_of_text_is_text() -> None:
    document = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "Long ago"},
    }
    body = {"messages": [user(document)]}

    (message,) = conversation_of(MESSAGES, body).messages

    assert [words for _, words in message.pieces()] == ["Long ago"]
    assert list(message.media()) == []


def test_calls_with_odd_values_are_read() -> None:
    (message,) = read(says(tool_use("a", half="\ud83d", long=2**70)))

    arguments = message["tool_calls"][0]["function"]["arguments"]
    assert arguments == '{"half":"\\ud83d","long":1180591620717411303424}'


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "Read"}, {"type": "function", "function": {"name": "Read"}}),
    ],
)
def test_the_choice_of_a_tool_is_known(choice: Fields, words: Any) -> None:
    request = request_of(MESSAGES, {"messages": [], "tool_choice": choice})

    assert request.options["tool_choice"] == words


def test_tools_are_counted_as_functions_and_server_tools_as_they_are() -> None:
    own = {"name": "Read", "description": "d", "input_schema": {"type": "object"}}
    server = {"type": "web_search_20250305", "name": "web_search"}

    first, second = request_of(MESSAGES, {"messages": [], "tools": [own, server]}).options["tools"]

    assert first["function"]["parameters"] == {"type": "object"}
    assert second == server


@pytest.mark.parametrize("given", [None, "Hi", 5, {}, [5]])
def test_messages_of_unknown_form_are_no_conversation(given: Any) -> None:
    assert request_of(MESSAGES, {"messages": given}).conversation is None
