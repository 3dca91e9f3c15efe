import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.body.splice import splice
from tests.support.message_slices import message_slices
from tests.unit.chat.shapes import HUGE, RECORDED, SURROGATE, odd_messages, says, user, values

BOM = b"\xef\xbb\xbf"


def _unicode(value: Any) -> bytes:
    """Write as the SDKs do, letters as they are; what has no UTF-8 is escaped."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return written.encode("utf-8", "backslashreplace")


WRITERS: dict[str, Callable[[Any], bytes]] = {
    "compact": lambda value: json.dumps(value, separators=(",", ":")).encode(),
    "spaced": lambda value: json.dumps(value).encode(),
    "indented": lambda value: b"\r\n" + json.dumps(value, indent=1).encode() + b" ",
    "unicode": _unicode,
    "marked": lambda value: BOM + _unicode(value),
}


def _read(body: bytes) -> Any:
    return json.loads(body.removeprefix(BOM))


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("writer", WRITERS)
def test_the_clients_own_list_gives_the_very_same_bytes(name: str, writer: str) -> None:
    body = WRITERS[writer]({"model": "é", "messages": RECORDED[name], "stream": True})
    everything = list(range(len(RECORDED[name])))

    assert splice(body, everything) == body
    assert splice(body, everything, _read(body)) == body


def test_a_run_of_messages_keeps_what_stands_between_them() -> None:
    body = b'{ "messages" : [ {"a":1} ,\n{"b":2}, {"c":3} ] , "n" : 1 }'

    spliced = splice(body, [{"new": "é"}, 1, 2])

    assert spliced == '{ "messages" : [ {"new":"é"},{"b":2}, {"c":3} ] , "n" : 1 }'.encode()


def test_messages_may_be_dropped_doubled_and_reordered() -> None:
    body = b'{"messages":[{"a":1},{"b":2},{"c":3}]}'

    assert splice(body, []) == b'{"messages":[]}'
    assert splice(body, [2, 0, 0]) == b'{"messages":[{"c":3},{"a":1},{"a":1}]}'
    assert splice(body, [0, {}, {"x": 1}, 2]) == b'{"messages":[{"a":1},{},{"x":1},{"c":3}]}'


def test_an_empty_list_may_be_filled() -> None:
    body = b'{"messages" : [ ], "n":1}'

    assert splice(body, [], _read(body)) == body
    assert splice(body, [user("hi")]) == b'{"messages" : [{"role":"user","content":"hi"}], "n":1}'
    assert splice(body, []) == body


def test_of_two_lists_the_last_one_counts() -> None:
    twice = b'{"messages":[{"a":1}],"n":1,"messages":[{"a":1}]}'

    assert splice(twice, [], _read(twice)) == b'{"messages":[{"a":1}],"n":1,"messages":[]}'


def test_an_escaped_key_and_a_nested_namesake_are_told_apart() -> None:
    body = rb'{"metadata":{"messages":[1]},"mess\u0061ges":[{"a":"]}\""}],"x":"messages"}'

    spliced = splice(body, [{}], _read(body))

    assert spliced == rb'{"metadata":{"messages":[1]},"mess\u0061ges":[{}],"x":"messages"}'


def test_surrogates_long_integers_and_deep_values_survive_around_the_cut() -> None:
    deep = "[" * 60 + "]" * 60
    digits = "9" * 5_000
    body = rb'{"seed":%s,"messages":[{"a":"\ud83d"},{"b":%s}],"t":%s}' % (
        digits.encode(),
        digits.encode(),
        deep.encode(),
    )

    spliced = splice(body, [1, user(SURROGATE), user(HUGE)])

    new = rb'{"role":"user","content":"half \ud83d"},{"role":"user","content":%d}' % HUGE
    assert spliced == body.replace(rb'{"a":"\ud83d"},', b"").replace(
        b'}],"t"', b"}," + new + b'],"t"'
    )


def test_fields_of_another_body_do_no_harm() -> None:
    body = orjson.dumps({"model": "m", "messages": [user("a"), says("b")], "n": 1})
    expected = splice(body, [1, 0])

    others: list[dict[str, Any]] = [
        {},
        {"messages": []},
        {"messages": "x"},
        {"messages": [user("a")]},
        {"model": "m", "messages": [user("a")]},
        {"model": "m", "messages": [user("a"), says("c")], "n": 1},
        {"model": "m", "messages": [user("a"), says("b")], "n": 2},
        {"model": "m", "messages": [user("a"), says("b")]},
        {"model": SURROGATE, "messages": [user("a"), says("b")], "n": 1},
    ]
    for fields in others:
        assert splice(body, [1, 0], fields) == expected


@pytest.mark.parametrize(
    "body", [b"{}", b'{"messages":null}', b'{"messages":[],"messages":{}}', b"[]", b'{"a"']
)
def test_a_body_without_a_list_is_refused(body: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        splice(body, [])


@given(
    st.lists(odd_messages, max_size=4),
    st.dictionaries(st.sampled_from(["model", "tools", "é", 'a"b']), values, max_size=3),
    st.integers(0, 3),
    st.sampled_from(sorted(WRITERS)),
    st.data(),
)
def test_own_messages_keep_their_bytes_and_the_rest_is_as_planned(
    messages: list[dict[str, Any]],
    around: dict[str, Any],
    place: int,
    writer: str,
    data: st.DataObject,
) -> None:
    items = list(around.items())
    given = dict([*items[:place], ("messages", messages), *items[place:]])
    body = WRITERS[writer](given)
    own = st.integers(0, len(messages) - 1) if messages else st.nothing()
    plan: list[int | dict[str, Any]] = data.draw(st.lists(own | odd_messages, max_size=5))
    before = message_slices(body)

    spliced = splice(body, plan, data.draw(st.sampled_from([None, _read(body)])))

    expected = [messages[new] if isinstance(new, int) else new for new in plan]
    assert _read(spliced) == {**given, "messages": expected}
    for new, now in zip(plan, message_slices(spliced), strict=True):
        if isinstance(new, int):
            assert spliced[now] == body[before[new]]
    if before:
        assert spliced.startswith(body[: before[0].start])
        assert spliced.endswith(body[before[-1].stop :])
