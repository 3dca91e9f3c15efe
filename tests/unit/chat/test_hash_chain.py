import copy
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.hash_chain import SEED, chained
from chat_proxy.chat.message import Message
from tests.unit.chat.shapes import (
    HUGE,
    RECORDED,
    SURROGATE,
    histories,
    image,
    odd_messages,
    result,
    says,
    text,
    user,
)

MARK = {"type": "ephemeral"}


def chain(messages: Iterable[Message], value: bytes = SEED) -> list[bytes]:
    return chained((message.canonical for message in messages), value)


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


def test_a_chain_can_go_on_from_an_earlier_value() -> None:
    messages = [Message(fields) for fields in RECORDED["openai-py"]]
    values = chain(messages)

    assert values[:1] == chained([messages[0].canonical], SEED)
    assert values[3:] == chain(messages[3:], values[2])
    assert chain([]) == []
    assert len(set(values)) == len(values)


def test_messages_cannot_be_moved_across_a_border() -> None:
    one = chain([Message(user("ab")), Message(user("c"))])
    other = chain([Message(user("a")), Message(user("bc"))])

    assert one[-1] != other[-1]


@given(histories, histories)
def test_values_are_equal_exactly_while_the_canonical_prefixes_are(
    one: list[dict[str, Any]], other: list[dict[str, Any]]
) -> None:
    ours, theirs = [Message(m) for m in one], [Message(copy.deepcopy(m)) for m in other]

    for length, (left, right) in enumerate(zip(chain(ours), chain(theirs), strict=False), 1):
        prefix = [message.canonical for message in ours[:length]]
        assert (left == right) == (prefix == [message.canonical for message in theirs[:length]])


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
