"""Tool results that a later one replaces."""

import json
from typing import Any

import pytest
from hypothesis import given

from chat_proxy.compaction.ageing.superseded import superseded
from tests.unit.chat.shapes import Fields, calls, conversation, result, says, user
from tests.unit.compaction.examples import busy_histories, embedded, tool_step

WHOLE = "def main(): ...\n" * 100
ERROR = "Error: the file does not exist"


def found(*steps: list[Fields]) -> dict[int, str]:
    messages = [message for step in steps for message in step]
    return superseded(conversation(user(), *messages, user("and now?")))


def read(
    name: str, content: str = WHOLE, tool: str = "read_file", **arguments: Any
) -> list[Fields]:
    return tool_step(name, tool, content, **(arguments or {"path": "a.py"}))


def test_the_same_call_again_replaces_the_earlier_result() -> None:
    again = [tool_step(name, "bash", "output " * 50, command="make test") for name in "abc"]

    assert found(*again) == {
        2: "the same call of bash came again later",
        4: "the same call of bash came again later",
    }


def test_the_order_of_arguments_does_not_matter() -> None:
    one = tool_step("a", "grep", "x" * 90, pattern="p", path="src")
    two = tool_step("b", "grep", "x" * 90, path="src", pattern="p")

    assert list(found(one, two)) == [2]


def test_another_call_replaces_nothing() -> None:
    assert not found(
        tool_step("a", "bash", "x" * 90, command="make"),
        tool_step("b", "bash", "x" * 90, command="make test"),
        tool_step("c", "shell", "x" * 90, command="make"),
    )


def test_a_later_short_error_does_not_replace_a_result() -> None:
    command = {"command": "make test"}

    assert not found(
        tool_step("a", "bash", "output " * 50, **command),
        tool_step("b", "bash", "timed out", **command),
    )
    assert not found(read("a"), read("b", ERROR))
    assert not found(read("a", tool="cat"), read("b", ERROR, tool="read_file"))


def test_an_error_between_does_not_hide_the_later_whole_result() -> None:
    assert list(found(read("a"), read("b"), read("c", ERROR))) == [2]
    assert list(found(read("a", tool="cat"), read("b"), read("c", ERROR))) == [2]
    assert set(found(read("a"), read("b", ERROR), read("c"))) == {2, 4}


def test_a_file_read_again_replaces_earlier_parts_of_it() -> None:
    part = read("a", path="a.py", offset=1, limit=50)

    assert found(part, read("b")) == {2: "the file was read again later"}


def test_a_part_of_a_file_does_not_replace_the_whole() -> None:
    assert not found(read("a"), read("b", path="a.py", offset=1, limit=50))


@pytest.mark.parametrize("key", ["path", "file_path", "filePath", "filename", "target_file"])
def test_a_file_is_known_by_its_path_under_any_name(key: str) -> None:
    assert list(found(read("a", path="a.py"), read("b", **{key: "a.py"}))) == [2]
    assert not found(read("a", path="a.py"), read("b", **{key: "b.py"}))


@pytest.mark.parametrize("tool", ["write_file", "Write", "create_file", "save_file", "put_file"])
def test_a_file_written_whole_replaces_earlier_reads(tool: str) -> None:
    written = tool_step("b", tool, "ok", path="a.py", content="x = 1")

    assert found(read("a"), written) == {2: "the file was rewritten later"}


def test_an_edit_does_not_replace_a_read() -> None:
    edited = tool_step("b", "edit_file", "ok", path="a.py", old="x", new="y")
    computed = tool_step("c", "compute", "ok", path="a.py", text="x")

    assert not found(read("a"), edited, computed)


def test_a_write_that_failed_replaces_nothing() -> None:
    failed = tool_step("b", "write_file", "Error: permission denied", path="a.py", content="x = 1")

    assert not found(read("a"), failed)


def test_a_write_replaces_no_other_output_about_the_file() -> None:
    diff = tool_step("a", "git_diff", "x" * 90, path="a.py")

    assert not found(diff, tool_step("b", "write_file", "ok", path="a.py", content="x"))


def test_results_of_unknown_calls_replace_nothing() -> None:
    orphan = {"role": "tool", "content": "x" * 90}

    assert not found([orphan, orphan], [result("z", "x" * 90), result("z", "x" * 90)])


def test_embedded_results_replace_nothing() -> None:
    block = embedded("read_file", "x" * 90)

    assert not found([says(block)], [says(block)])


def test_arguments_that_are_no_object_are_compared_as_text() -> None:
    def step(name: str, arguments: str) -> list[Fields]:
        call = calls(name)
        call["tool_calls"][0]["function"]["arguments"] = arguments
        return [call, result(name, "x" * 90)]

    assert list(found(step("a", "[1]"), step("b", "[1]"))) == [2]
    assert not found(step("a", "[1]"), step("b", "[2]"))
    assert list(found(step("a", "[" * 99_999), step("b", "[" * 99_999))) == [2]


@given(busy_histories)
def test_any_history_can_be_looked_at(messages: list[Fields]) -> None:
    before = json.dumps(messages)

    replaced = superseded(conversation(*messages))

    assert json.dumps(messages) == before
    for index, reason in replaced.items():
        assert messages[index]["role"] in ("tool", "function")
        assert reason
