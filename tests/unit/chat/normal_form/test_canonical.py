import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.message import Message
from tests.unit.chat.shapes import (
    HUGE,
    SURROGATE,
    image,
    odd_messages,
    result,
    says,
    text,
    user,
)

MARK = {"type": "ephemeral"}


def _canonical(fields: dict[str, Any]) -> bytes:
    return Message(fields).canonical


def test_the_order_of_keys_does_not_matter() -> None:
    assert _canonical({"role": "user", "content": "é"}) == _canonical(
        {"content": "é", "role": "user"}
    )
    assert _canonical(user("é")) == '{"content":"é","role":"user"}'.encode()


def test_cache_marks_do_not_matter_on_messages_parts_and_nested_parts() -> None:
    plain = result("1", [text("a"), {"type": "tool_result", "content": [image(), "x"]}])
    marked = copy.deepcopy(plain) | {"cache_control": MARK}
    marked["content"][0]["cache_control"] = MARK
    marked["content"][1]["cache_control"] = MARK
    marked["content"][1]["content"][0]["cache_control"] = MARK
    before = copy.deepcopy(marked)

    assert _canonical(marked) == _canonical(plain)
    assert marked == before


@pytest.mark.parametrize("places", [(0,), (1,), (1, 0)])
def test_a_cache_mark_matters_nowhere_if_it_is_the_only_one(places: tuple[int, ...]) -> None:
    """BUGS 40: clients mark one part, and not the message around it."""
    plain = result("1", [text("a"), {"type": "tool_result", "content": [image(), "x"]}])
    marked = copy.deepcopy(plain)
    part = marked
    for place in places:
        part = part["content"][place]
    part["cache_control"] = MARK

    assert _canonical(marked) == _canonical(plain)


def test_a_cache_mark_elsewhere_is_part_of_the_message() -> None:
    said = says(tool_calls=[{"id": "1", "function": {"arguments": {"cache_control": 1}}}])
    other = says(tool_calls=[{"id": "1", "function": {"arguments": {}}}])

    assert _canonical(said) != _canonical(other)


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (1, 1.0), (1, "1"), (None, "null"), ([], {}), (HUGE, HUGE + 1)]
)
def test_values_that_look_alike_are_told_apart(one: Any, other: Any) -> None:
    assert _canonical(user(one)) != _canonical(user(other))


def test_lone_surrogates_are_replaced_and_long_integers_stay_exact() -> None:
    assert _canonical(user(SURROGATE)) == '{"content":"half \ufffd","role":"user"}'.encode()
    assert _canonical(user(HUGE)) == b'{"content":%d,"role":"user"}' % HUGE


@given(odd_messages, st.data())
def test_only_cache_marks_may_come_and_go(fields: dict[str, Any], data: st.DataObject) -> None:
    marked = copy.deepcopy(fields) | {"cache_control": MARK}
    content = marked.get("content")
    if isinstance(content, list):
        for part in content:
            if isinstance(part, dict) and data.draw(st.booleans()):
                part["cache_control"] = MARK

    assert _canonical(marked) == _canonical(fields)
    assert _canonical({**fields, "new": 1}) != _canonical(fields)
