"""Tool results and calls that are shortened: head, tail, and the errors between them."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.compaction.ageing.short import short_arguments, short_result, short_text
from chat_proxy.compaction.truncate_text import byte_count

OFFLOADED = f" [offload id: {'ab' * 16}]"
LOG = "\n".join(
    [
        "begin of the log",
        *(f"step {number} is done" for number in range(200)),
        "FAILED tests/test_a.py::test_refund",
        *(f"step {number} is done" for number in range(200, 400)),
        "ValueError: shard 7 has no leader",
        *(f"step {number} is done" for number in range(400, 600)),
        "end of the log",
    ]
)


def test_a_result_within_the_limit_stays() -> None:
    assert short_result("x" * 200, 200, "bash") == "x" * 200


def test_head_and_tail_stay() -> None:
    short = short_result("begin " + "word " * 500 + "end", 300, "read_file")

    assert short.startswith("begin ")
    assert short.endswith(" end")
    assert "[Tool output truncated: omitted " in short
    assert byte_count(short) <= 300


def test_failing_tests_and_errors_of_the_omitted_middle_stay() -> None:
    short = short_result(LOG, 800, "bash")

    lines = short.splitlines()
    assert byte_count(short) <= 800
    assert lines.index("FAILED tests/test_a.py::test_refund") < lines.index(
        "ValueError: shard 7 has no leader"
    )
    assert lines[0] == "begin of the log"
    assert lines[-1] == "end of the log"


def test_errors_that_head_or_tail_show_are_not_repeated() -> None:
    text = "FAILED a.py::first\n" + "fine\n" * 500 + "FAILED a.py::last"

    short = short_result(text, 400, "bash")

    assert short.count("FAILED a.py::first") == 1
    assert short.count("FAILED a.py::last") == 1


def test_errors_have_at_most_a_quarter_of_the_limit() -> None:
    text = "begin\n" + "\n".join(f"FAILED a.py::test_number_{n}" for n in range(900)) + "\nend"

    short = short_result(text, 1_000, "bash")

    assert byte_count(short) <= 1_000
    after_note = short.partition("chars]\n")[2]
    first = [line for line in after_note.splitlines() if line.startswith("FAILED")]
    assert short.startswith("begin\nFAILED a.py::test_number_0\n")
    assert 5 < len(first) < 30


def test_a_file_has_no_errors_to_keep() -> None:
    assert "ValueError" not in short_result(LOG, 800, "read_file")


def test_the_place_of_the_whole_text_follows_the_note() -> None:
    short = short_result(LOG, 800, "bash", OFFLOADED)

    assert f" chars]{OFFLOADED}\n" in short
    assert byte_count(short) <= 800


@pytest.mark.parametrize(
    "place", [OFFLOADED, f" [full text: /data/tool_result/{'ab' * 16}.txt, go on from line 7]"]
)
def test_a_result_that_was_truncated_before_keeps_its_place(place: str) -> None:
    note = f"[Tool output truncated: omitted 9000 chars]{place}"

    short = short_result(f"{'x' * 600}\n{note}\n{'y' * 600}", 400, "bash", " [offload id: 99]")

    assert byte_count(short) <= 400
    assert short.count(place) == 1
    assert "[offload id: 99]" not in short


@pytest.mark.parametrize("words", ["see [offload id: 12ab] there", "[full text: /etc/passwd]"])
def test_a_place_that_no_note_of_ours_names_is_plain_text(words: str) -> None:
    short = short_result(f"{words}\n" * 99, 400, "bash", OFFLOADED)

    assert f" chars]{OFFLOADED}" in short


def test_where_not_even_the_note_fits_only_the_note_is_left() -> None:
    assert short_result("x" * 500, 10, "bash") == "[Tool output truncated: omitted 500 chars]"


_TEXTS = st.lists(
    st.sampled_from(
        ["word ", "\n", "é", "日本", "FAILED x::y\n", "error: z\n", "\ud83d", "x" * 60, "\n\n"]
    ),
    max_size=120,
).map("".join)
_LIMITS = st.sampled_from([0, 30, 60, 150, 240, 500])
_PLACES = st.sampled_from(["", OFFLOADED])


@given(_TEXTS, _LIMITS, _PLACES)
def test_a_short_result_keeps_its_limit_and_is_stable(text: str, limit: int, where: str) -> None:
    """BUGS 21"""
    short = short_result(text, limit, "bash", where)

    note = f"[Tool output truncated: omitted {len(text)} chars]{where}"
    assert byte_count(short) <= max(limit, len(note)) or (short == text and len(text) < len(note))
    assert len(short) <= len(text)
    assert short_result(short, limit, "bash", where) == short
    assert short == short_result(text, limit, "bash", where)


def test_long_strings_in_arguments_are_cut_and_json_stays_json() -> None:
    given = {"path": "a.py", "content": "x" * 900, "edits": [{"new": "y" * 900}], "n": 3}

    short = json.loads(short_arguments(json.dumps(given), 100))

    assert (short["path"], short["n"]) == ("a.py", 3)
    assert byte_count(short["content"]) <= 100
    assert byte_count(short["edits"][0]["new"]) <= 100
    assert "[omitted " in short["content"]


@pytest.mark.parametrize("given", ['{"a": 1}', "", None, 5, {"a": "b"}, "not json"])
def test_short_arguments_stay(given: Any) -> None:
    assert short_arguments(given, 100) == given


def test_arguments_that_are_an_object_are_cut_too() -> None:
    assert byte_count(short_arguments({"a": ["x" * 900]}, 100)["a"][0]) <= 100


def test_arguments_that_are_no_json_are_cut_as_text() -> None:
    """The input of a custom tool is any text."""
    short = short_arguments("apply patch " * 200, 100)

    assert byte_count(short) <= 100
    assert short.startswith("apply patch")


def test_arguments_nested_too_deep_to_read_stay() -> None:
    deep = "[" * 100_000 + "]" * 100_000

    assert short_arguments(deep, 100) in (deep, short_text(deep, 100))


def test_cutting_arguments_twice_is_cutting_them_once() -> None:
    once = short_arguments(json.dumps({"a": "x" * 900, "b": "é\n" * 400}), 100)

    assert short_arguments(once, 100) == once


def test_a_text_is_cut_in_its_middle() -> None:
    short = short_text("first " + "word " * 300 + "last", 120)

    assert byte_count(short) <= 120
    assert short.startswith("first ")
    assert short.endswith(" last")


@pytest.mark.parametrize("bomb", ["a::", "::", "Test-", "error ", "FAILED a\n", "é", "\n"])
def test_hostile_output_takes_no_time(bomb: str) -> None:
    long = bomb * (1_000_000 // len(bomb))
    started = time.process_time()

    short_result(long, 3_000, "bash")

    assert time.process_time() - started < 1
