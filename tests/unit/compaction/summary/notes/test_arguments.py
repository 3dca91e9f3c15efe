"""The details of a call that its line in the notes has no space for."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.tool_names import ResultCall, call_of_results
from chat_proxy.compaction.ageing.line import shown_call
from chat_proxy.compaction.summary.notes.arguments import LONGEST_DETAILS, details_behind
from chat_proxy.compaction.summary.notes.units import units_of
from tests.unit.chat.shapes import conversation
from tests.unit.compaction.examples import tool_step

BOOKING: dict[str, Any] = {
    "user_id": "mia_li_3668",
    "origin": "JFK",
    "destination": "SEA",
    "flight_type": "one_way",
    "flights": [{"number": "HAT136", "date": "2024-05-20"}, {"number": "HAT039"}],
    "payment": {"id": "certificate_7504069", "amount": 250, "confirmed": True},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def details(**arguments: Any) -> str:
    call = ResultCall("book", json.dumps(arguments))
    return details_behind(shown_call(call), call)


def test_values_that_the_line_has_no_space_for_are_listed_once() -> None:
    assert details(**BOOKING) == "HAT136, 2024-05-20, HAT039, certificate_7504069, 250"
    assert details(**BOOKING, again=BOOKING) == details(**BOOKING)


def test_a_call_that_its_line_shows_whole_has_no_further_details() -> None:
    assert details(user_id="mia_li_3668", origin="JFK") == ""


def test_texts_and_files_are_no_details() -> None:
    assert details(path="a" * 90, content="line\n" * 40, mode="w") == "w"


def test_a_key_is_not_repeated() -> None:
    assert "sk-abcdefghijklmnop" not in details(**BOOKING, key="sk-abcdefghijklmnop1234567890")


@pytest.mark.parametrize("arguments", ["", "{" + "x" * 200, "[1" * 300, '"' + "y" * 30_000 + '"'])
def test_arguments_that_cannot_be_read_have_no_details(arguments: str) -> None:
    call = ResultCall("book", arguments)

    assert details_behind(shown_call(call), call) == ""


@given(JSON)
def test_details_are_one_bounded_line(arguments: Any) -> None:
    call = ResultCall("b" * 80, json.dumps(arguments))

    found = details_behind(shown_call(call), call)

    assert len(found) <= LONGEST_DETAILS
    assert "\n" not in found


def test_deeply_nested_arguments_are_read() -> None:
    call = ResultCall("book", "[" * 1_000 + '"HAT136"' + "]" * 1_000)

    assert details_behind(shown_call(call), call) == "HAT136"


def test_the_unit_of_a_call_has_them() -> None:
    talk = conversation(*tool_step("1", "book", "done", **BOOKING))
    (call, *_) = units_of(list(enumerate(talk.messages)), call_of_results(talk))

    assert call.text.startswith("book(user_id: mia_li_3668")
    assert call.text.endswith("HAT039, certificate_7504069, 250 → 4 chars")
