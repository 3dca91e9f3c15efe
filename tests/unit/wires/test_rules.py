"""The rules of both APIs, which property tests rely on, notice what breaks them."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from tests.support.wires.messages_rules import messages_violations
from tests.support.wires.responses_rules import responses_violations
from tests.support.wires.talks import Step, messages_body, responses_body

Fields = dict[str, Any]
STEPS = (
    Step(("function", "custom"), thinks=True, searches=True, reminds=True),
    Step((), says=True, has_image=True),
    Step(("shell", "apply_patch", "local_shell", "computer"), steers=True),
)


def at(*path: str | int) -> Callable[[Fields], Any]:
    """Return a way to a part of a request."""

    def found(body: Fields) -> Any:
        value: Any = body
        for key in path:
            value = value[key]
        return value

    return found


MESSAGES: dict[str, Callable[[Fields], Any]] = {
    "two users": lambda body: body["messages"].insert(0, {"role": "user", "content": "Hi"}),
    "first is assistant": lambda body: body["messages"].pop(0),
    "a result lost": lambda body: at("messages", 3, "content")(body).pop(0),
    "a call lost": lambda body: at("messages", 2, "content")(body).pop(),
    "a strange result": lambda body: at("messages", 3, "content", 0)(body).update(tool_use_id="x"),
    "text before a result": lambda body: at("messages", 3, "content")(body).reverse(),
    "no signature": lambda body: at("messages", 2, "content", 0)(body).pop("signature"),
    "an empty text": lambda body: body["messages"].append({"role": "assistant", "content": ""}),
    "no blocks": lambda body: body["messages"].append({"role": "assistant", "content": []}),
    "no max_tokens": lambda body: body.pop("max_tokens"),
    "too much thinking": lambda body: body.update(
        thinking={"type": "enabled", "budget_tokens": 1_024}, max_tokens=1_024
    ),
    "a role": lambda body: body["messages"].append({"role": "tool", "content": "x"}),
    "another API's part": lambda body: at("messages", 0, "content", 0)(body).update(
        type="input_text"
    ),
    "half a server tool": lambda body: at("messages", 2, "content")(body).pop(3),
    "many marks": lambda body: body.update(tools=[{"cache_control": {}}] * 5),
}
RESPONSES: dict[str, Callable[[Fields], Any]] = {
    "an output lost": lambda body: body["input"].remove(_first(body, "function_call_output")),
    "a call lost": lambda body: body["input"].remove(_first(body, "custom_tool_call")),
    "reasoning alone": lambda body: body["input"].append(_first(body, "reasoning")),
    "another API's part": lambda body: at("input", 1, "content", 0)(body).update(type="text"),
    "what only the model says": lambda body: at("input", 1)(body).update(role="assistant"),
    "an empty text": lambda body: at("input", 1, "content", 0)(body).update(text=""),
    "a role": lambda body: at("input", 1)(body).update(role="tool"),
    "a type": lambda body: body["input"].append({"type": "tool_result"}),
    "arguments as an object": lambda body: _first(body, "function_call").update(arguments={}),
    "a screenshot as text": lambda body: _first(body, "computer_call_output").update(output="x"),
    "a shell as text": lambda body: _first(body, "shell_call_output").update(output="x"),
    "nothing": lambda body: body.update(input=[]),
}


def _first(body: Fields, kind: str) -> Fields:
    found: Fields = next(item for item in body["input"] if item["type"] == kind)
    return found


def test_a_good_request_breaks_no_rule() -> None:
    assert messages_violations(messages_body(STEPS)) == []
    assert responses_violations(responses_body(STEPS)) == []
    assert responses_violations({"input": "Hi"}) == []


@pytest.mark.parametrize("name", MESSAGES)
def test_a_broken_rule_of_messages_is_noticed(name: str) -> None:
    body = deepcopy(messages_body(STEPS))

    MESSAGES[name](body)

    assert messages_violations(body)


@pytest.mark.parametrize("name", RESPONSES)
def test_a_broken_rule_of_responses_is_noticed(name: str) -> None:
    body = deepcopy(responses_body(STEPS))

    RESPONSES[name](body)

    assert responses_violations(body)
