"""A changed conversation is written as items that the Responses API accepts."""

from typing import Any

import pytest

from chat_proxy.wires.responses.outputs import BLANK_IMAGE
from chat_proxy.wires.responses.wire import RESPONSES
from tests.support.wires.responses_rules import responses_violations
from tests.support.wires.talks import KINDS, Step, responses_body
from tests.unit.wires.test_responses_read import ASKS, REASONING, SAYS, function_call, output
from tests.unit.wires.writing import Fields, folded, rewritten, with_arguments, with_contents

PATCH = {"type": "update_file", "path": "a", "diff": "+1"}
NOTE = {"type": "text", "text": "[image]"}


def items_of(given: list[Fields], contents: dict[int, Any]) -> list[Fields]:
    written: list[Fields] = rewritten(RESPONSES, {"input": given}, with_contents(contents))["input"]
    return written


def test_a_fold_is_a_message_of_the_user_and_an_answer() -> None:
    body = {"input": [ASKS, SAYS, ASKS], "instructions": "Be kind."}

    written = rewritten(RESPONSES, body, folded(1, 3))

    assert written["instructions"] == "Be kind."
    assert written["input"] == [
        {"type": "message", "role": "user", "content": "So far."},
        {"type": "message", "role": "assistant", "content": "Yes."},
        ASKS,
    ]


def test_a_string_stays_a_string_when_only_the_answer_gets_shorter() -> None:
    body = {"input": "Hi", "max_output_tokens": 100}

    written = rewritten(RESPONSES, body, lambda it: it, {"max_completion_tokens": 50})

    assert written == {"input": "Hi", "max_output_tokens": 50}


def test_a_string_that_is_changed_becomes_items() -> None:
    written = rewritten(RESPONSES, {"input": "Hi"}, with_contents({0: "Hello"}))

    assert written["input"] == [{"type": "message", "role": "user", "content": "Hello"}]


def test_shortened_words_of_the_model_keep_their_reasoning_and_calls() -> None:
    call = function_call("a", '{"x": 1}')

    written = items_of([REASONING, SAYS, call], {0: "We…"})

    content = [{**SAYS["content"][0], "text": "We…"}]
    assert written == [REASONING, {**SAYS, "content": content}, call]


def test_shortened_arguments_are_written_into_their_calls() -> None:
    patch = {"type": "apply_patch_call", "call_id": "p", "operation": PATCH}
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "e", "input": "long"}
    body = {"input": [function_call("f", '{"long": 1}'), patch, custom]}

    shorter = with_arguments(0, '{"l": 1}', '{"path": "a"}', "l")
    first, second, third = rewritten(RESPONSES, body, shorter)["input"]

    assert first["arguments"] == '{"l": 1}'
    assert second["operation"] == {"path": "a"}
    assert third["input"] == "l"


def test_arguments_that_are_no_object_any_more_stay_as_they_were() -> None:
    patch = {"type": "apply_patch_call", "call_id": "p", "operation": PATCH}

    written = rewritten(RESPONSES, {"input": [patch]}, with_arguments(0, '{"path": "a'))

    assert written["input"] == [patch]


def test_numbers_of_unchanged_arguments_keep_every_digit() -> None:
    shell = {"type": "shell_call", "call_id": "s", "action": {"n": 2**70}}

    written = items_of([SAYS, shell], {0: "We…"})

    assert written[-1] == shell


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_media_that_left_an_output_leave_a_note(kind: str) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    words = {"type": "input_text", "text": "See"}

    (written,) = items_of([output("c", [words, image], kind)], {0: [words, NOTE]})

    assert written["output"] == [words, {"type": "input_text", "text": "[image]"}]


@pytest.mark.parametrize(
    "kind", ["function_call_output", "local_shell_call_output", "apply_patch_call_output"]
)
def test_a_shorter_text_is_a_text(kind: str) -> None:
    given = {**output("c", "long", kind), "status": "completed"}

    assert items_of([given], {0: "short"}) == [{**given, "output": "short"}]


def test_the_outputs_of_a_shell_are_shortened_one_by_one() -> None:
    streams = [
        {"stdout": "long", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}},
        {"stdout": "other", "stderr": "err", "outcome": {"type": "timeout"}},
    ]
    texts = [{"type": "input_text", "text": text} for text in ("l", "", "other", "e")]

    (written,) = items_of([output("c", streams, "shell_call_output")], {0: texts})

    assert written["output"] == [
        {**streams[0], "stdout": "l"},
        {**streams[1], "stderr": "e"},
    ]


@pytest.mark.parametrize("line", ["line", [{"type": "text", "text": "line"}]])
def test_one_line_of_a_shell_s_outputs_ends_as_the_last_one_did(line: Any) -> None:
    streams = [{"stdout": "a", "stderr": "b", "outcome": {"type": "timeout"}}] * 2

    (written,) = items_of([output("c", streams, "shell_call_output")], {0: line})

    assert written["output"] == [{"stdout": "line", "stderr": "", "outcome": {"type": "timeout"}}]


def test_a_screenshot_that_is_dropped_leaves_a_blank_image() -> None:
    """The API accepts no note in its place."""
    shot = {"type": "computer_screenshot", "file_id": "file-1"}

    (written,) = items_of([output("c", shot, "computer_call_output")], {0: [NOTE]})

    assert written["output"] == {"type": "computer_screenshot", "image_url": BLANK_IMAGE}


def test_media_of_a_user_leave_a_note() -> None:
    image = {"type": "input_image", "file_id": "file-1"}
    words = {"type": "input_text", "text": "See"}
    given = {"role": "user", "content": [words, image]}

    (written,) = items_of([given], {0: [words, NOTE, {"type": "text", "text": "left out"}]})

    assert [part["type"] for part in written["content"]] == ["input_text"] * 3


def test_a_tool_of_the_server_is_never_taken_for_words() -> None:
    search = {"type": "web_search_call", "id": "ws_1"}
    parts = [{**SAYS["content"][0], "text": "We…"}, search]

    assert items_of([SAYS, search], {0: parts}) == [{**SAYS, "content": parts[:1]}, search]


def test_what_is_sealed_stays_whatever_happens_to_it() -> None:
    sealed = {"type": "compaction", "encrypted_content": "gAAAA=="}

    assert items_of([ASKS, sealed, ASKS], {0: "changed"}) == [ASKS, sealed, ASKS]


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_of_any_result_is_one_that_the_api_accepts(kind: str) -> None:
    body = responses_body([Step((kind, kind), has_image=True), Step()])
    for line in ("[a line]", [{"type": "text", "text": "[a line]"}]):
        written = rewritten(RESPONSES, body, with_contents({4: line, 5: line}))

        assert written != body
        assert responses_violations(written) == []
