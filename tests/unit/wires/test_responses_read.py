"""Every type of item of a Responses request becomes a message of the conversation."""

from typing import Any

import pytest

from chat_proxy.wires.responses.wire import RESPONSES
from tests.unit.wires.writing import Fields, conversation_of, messages_of, request_of

REASONING: Fields = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "gAAAA==",
}
SAYS: Fields = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Well.", "annotations": []}],
}
ASKS: Fields = {"role": "user", "content": "Hi"}


def read(*items: Fields, **fields: Any) -> list[Fields]:
    return messages_of(RESPONSES, {"model": "m", "input": list(items), **fields})


def function_call(name: str, arguments: str = "{}") -> Fields:
    return {"type": "function_call", "call_id": name, "name": "f", "arguments": arguments}


def output(name: str, text: Any = "done", kind: str = "function_call_output") -> Fields:
    return {"type": kind, "call_id": name, "output": text}


def test_a_string_is_a_message_of_the_user() -> None:
    read_in = messages_of(RESPONSES, {"input": "Hi", "instructions": "Be kind."})

    assert read_in == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
    ]


@pytest.mark.parametrize("role", ["user", "system", "developer"])
@pytest.mark.parametrize("content", ["Hi", [{"type": "input_text", "text": "Hi"}]])
def test_a_message_keeps_role_and_content_with_or_without_its_type(role: str, content: Any) -> None:
    item = {"role": role, "content": content}

    assert read(item) == read({**item, "type": "message"}) == [item]


def test_what_the_model_thought_said_and_called_is_one_message() -> None:
    (message,) = read(REASONING, SAYS, function_call("a"), function_call("b"))

    assert message["content"] == "Well."
    assert message["reasoning_content"] == "Hm."
    assert [call["id"] for call in message["tool_calls"]] == ["a", "b"]


def test_parallel_outputs_stay_with_their_calls() -> None:
    body = {"input": [ASKS, function_call("a"), function_call("b"), output("b"), output("a"), SAYS]}

    groups = conversation_of(RESPONSES, body).groups

    assert [(group.start, group.end) for group in groups] == [(0, 1), (1, 4), (4, 5)]


def test_a_second_message_or_thought_begins_another_message() -> None:
    roles = [message["role"] for message in read(SAYS, SAYS, REASONING, function_call("a"))]

    assert roles == ["assistant"] * 3


@pytest.mark.parametrize(
    ("item", "name", "arguments"),
    [
        (
            {"type": "local_shell_call", "action": {"command": ["ls"]}},
            "local_shell",
            '{"command":["ls"]}',
        ),
        ({"type": "shell_call", "action": {"commands": ["ls"]}}, "shell", '{"commands":["ls"]}'),
        ({"type": "apply_patch_call", "operation": {"path": "a"}}, "apply_patch", '{"path":"a"}'),
        ({"type": "computer_call", "action": {"type": "wait"}}, "computer", '{"type":"wait"}'),
        ({"type": "function_call", "name": "f", "arguments": "{"}, "f", "{"),
    ],
)
def test_each_type_of_call_has_a_name_and_arguments(
    item: Fields, name: str, arguments: str
) -> None:
    (message,) = read({"call_id": "c", **item})

    (call,) = message["tool_calls"]
    assert (call["id"], call["function"]) == ("c", {"name": name, "arguments": arguments})


def test_a_custom_call_has_free_text() -> None:
    item = {"type": "custom_tool_call", "call_id": "c", "name": "edit", "input": "*** Begin"}

    (message,) = read(item)

    custom = {"name": "edit", "input": "*** Begin"}
    assert message["tool_calls"] == [{"id": "c", "type": "custom", "custom": custom}]


@pytest.mark.parametrize(
    "kind",
    [
        "function_call_output",
        "custom_tool_call_output",
        "local_shell_call_output",
        "apply_patch_call_output",
    ],
)
def test_an_output_is_a_tool_message(kind: str) -> None:
    assert read(output("c", "done", kind)) == [
        {"role": "tool", "tool_call_id": "c", "content": "done"}
    ]


def test_an_output_without_the_call_s_id_belongs_to_the_call_before_it() -> None:
    """The type of a local shell's output has an id of its own only."""
    shell = {"type": "local_shell_call", "id": "lsh_1", "call_id": "c", "action": {}}
    told = {"type": "local_shell_call_output", "id": "lsh_1", "output": "done"}

    groups = conversation_of(RESPONSES, {"input": [ASKS, shell, told, SAYS]}).groups

    assert [(group.start, group.end) for group in groups] == [(0, 1), (1, 3), (3, 4)]


def test_the_output_of_a_shell_is_its_texts() -> None:
    streams = [{"stdout": "out", "stderr": "err", "outcome": {"type": "timeout"}}]

    (message,) = read(output("c", streams, "shell_call_output"))

    assert [part["text"] for part in message["content"]] == ["out", "err"]


def test_a_screenshot_is_an_image() -> None:
    shot = {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA=="}
    body = {"input": [output("c", shot, "computer_call_output")]}

    (message,) = conversation_of(RESPONSES, body).messages

    assert [medium.kind for medium in message.media()] == ["image"]


@pytest.mark.parametrize(
    "hosted",
    [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
        {"type": "mcp_call", "id": "mcp_1", "name": "n", "arguments": "{}", "output": "o"},
        {"type": "mcp_list_tools", "id": "mcpl_1", "tools": []},
        {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "outputs": []},
        {"type": "something_new", "id": "x_1"},
    ],
)
def test_a_tool_of_the_server_belongs_to_the_turn_that_it_was_used_in(hosted: Fields) -> None:
    messages = read(ASKS, REASONING, hosted, REASONING, hosted, SAYS, ASKS)

    assert [message["role"] for message in messages] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    "fields",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"input": [ASKS, {"type": "item_reference", "id": "msg_1"}]},
    ],
)
def test_a_history_that_the_upstream_has_is_not_guessed(fields: Fields) -> None:
    request = request_of(RESPONSES, {"model": "m", "input": [ASKS], **fields})

    assert request.reading.is_elsewhere


def test_what_stands_before_a_compaction_item_is_sealed_with_it() -> None:
    """Only the server can read the item: it must never be folded into a summary."""
    sealed = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA=="}
    rules = {"role": "developer", "content": "Rules"}
    body = {"input": [rules, ASKS, SAYS, sealed, ASKS, SAYS, ASKS]}

    conversation = conversation_of(RESPONSES, body)

    assert conversation.instructions == 2
    assert conversation.messages[1].content == [ASKS, SAYS, sealed]
    assert conversation.seams[0] == 2


def test_tools_in_groups_are_counted_one_by_one() -> None:
    def tool(name: str) -> Fields:
        return {"type": "function", "name": name, "parameters": {}, "strict": False}

    search = {"type": "web_search"}
    tools = [tool("a"), {"type": "namespace", "name": "n", "tools": [tool("b"), tool("c")]}, search]

    options = request_of(RESPONSES, {"input": "Hi", "tools": tools}).options

    *functions, hosted = options["tools"]
    assert [each["function"]["name"] for each in functions] == ["a", "b", "c"]
    assert hosted == search


def test_the_limit_of_the_answer_is_known() -> None:
    options = request_of(RESPONSES, {"input": "Hi", "max_output_tokens": 7}).options

    assert options["max_completion_tokens"] == 7


@pytest.mark.parametrize("given", [None, 5, {}, [5], ["Hi"]])
def test_an_input_of_unknown_form_is_no_conversation(given: Any) -> None:
    assert request_of(RESPONSES, {"input": given}).conversation is None
