"""Tool output without the wrapping that clients put around it."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.compaction.ageing.unwrap import unwrapped


def test_a_file_is_read_without_tags_and_line_numbers() -> None:
    text = (
        "<path>/srv/app/main.py</path>\n<type>file</type>\n<content>\n"
        "1: import os\n2: import re\n3: CODE = 'K-17'\n</content>"
    )

    assert unwrapped(text) == "import os\nimport re\nCODE = 'K-17'"


@pytest.mark.parametrize("mark", ["\t", "|", "→", ": ", "| "])
def test_line_numbers_of_any_form_go(mark: str) -> None:
    text = "\n".join(f"{number:>6}{mark}line {number}" for number in range(1, 5))

    assert unwrapped(text) == "line 1\nline 2\nline 3\nline 4"


def test_two_numbered_lines_are_no_listing() -> None:
    assert unwrapped("1: one\n2: two") == "1: one\n2: two"


def test_numbers_that_are_content_stay() -> None:
    text = "10 apples\n20 pears\n30 plums"

    assert unwrapped(text) == text


@pytest.mark.parametrize("key", ["output", "stdout", "content", "result", "text", "body"])
def test_the_text_in_a_json_object_is_found(key: str) -> None:
    assert unwrapped(json.dumps({key: "line one\nline two", "ok": True})) == "line one\nline two"


@pytest.mark.parametrize(
    "document",
    [
        {"output": "done", "exit_code": 2},
        {"output": "done", "metadata": {"exit": 2}},
        {"stdout": "done", "returncode": 2},
    ],
)
def test_the_exit_status_of_a_json_object_stays(document: dict[str, object]) -> None:
    assert unwrapped(json.dumps(document)) == "done\nexit code 2"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain words",
        "{not json",
        "[1, 2]",
        '{"rows": [1, 2]}',
        '{"output": ""}',
        '{"output": {"a": 1}}',
        "{" * 100_000,
        "a < b and c > d",
        "<b>bold</b> text",
    ],
)
def test_what_is_not_wrapped_stays(text: str) -> None:
    assert unwrapped(text) == text


def test_wrapping_around_nothing_stays() -> None:
    assert unwrapped("<content>\n</content>") == "<content>\n</content>"


@given(st.text(alphabet='{}"<>/content path1: \n\ud83d', max_size=80))
def test_any_text_can_be_unwrapped(text: str) -> None:
    inner = unwrapped(text)

    assert inner == unwrapped(text)
    assert bool(inner) == bool(text)


@pytest.mark.parametrize(
    "bomb", ["<path", "<path>", "{", '{"a":', "1: ", "<content >", "1|", "\n "]
)
def test_hostile_output_takes_no_time(bomb: str) -> None:
    started = time.process_time()

    unwrapped(bomb * (200_000 // len(bomb)))

    assert time.process_time() - started < 1
