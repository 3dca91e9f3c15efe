import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.message import Message
from tests.unit.chat.shapes import (
    HUGE,
    PIXEL,
    RECORDED,
    SURROGATE,
    call,
    calls,
    developer,
    image,
    odd_messages,
    result,
    says,
    system,
    text,
    user,
    values,
)


def _pieces(fields: dict[str, Any]) -> list[tuple[str, str]]:
    return list(Message(fields).pieces())


def test_a_role_is_known_by_its_name() -> None:
    assert Message(system()).is_instruction
    assert Message(developer()).is_instruction
    assert Message(user()).is_user
    assert Message(says()).is_assistant
    assert Message(result("1")).is_tool_result
    assert Message({"role": "function"}).is_tool_result
    assert Message({"role": ["user"]}).role == ""
    assert Message(user()).role == "user"
    assert Message(user("hi")).content == "hi"


def test_calls_are_known_in_both_forms() -> None:
    odd = says(tool_calls=[{"id": 7}, "x", {"id": ""}, {"id": "b"}])

    assert Message(calls("a", "b")).call_ids == ("a", "b")
    assert Message(odd).call_ids == ("b",)
    assert Message(says()).call_ids == ()
    assert Message(calls("a")).calls_tools
    assert Message(says(function_call={"name": "f"})).calls_tools
    assert not Message(says(tool_calls=[], function_call=None)).calls_tools
    assert Message(result("a")).answers == "a"
    assert Message({"role": "tool", "tool_call_id": 3}).answers is None


def test_messages_are_equal_if_they_view_the_same_dict() -> None:
    fields = user()

    assert Message(fields) == Message(fields)
    assert len({Message(fields), Message(fields)}) == 1
    assert Message(fields) != Message(user())
    assert Message(fields) != fields
    assert repr(Message(user("secret"))) == "Message(role='user')"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (user("hi"), [("text", "hi")]),
        (user(None), []),
        (user(7), [("text", "7")]),
        (user([text("a"), "b", image()]), [("text", "a"), ("text", "b")]),
        (
            user([{"type": "input_text", "text": "a"}, {"text": "b"}]),
            [("text", "a"), ("text", "b")],
        ),
        (user(text("a")), [("text", "a")]),
        (says([{"type": "refusal", "refusal": "no"}]), [("text", "no")]),
        (says("a", refusal="no"), [("text", "a"), ("text", "no")]),
        (
            says([{"type": "thinking", "thinking": "hm", "signature": "s"}, text("a")]),
            [("reasoning", "hm"), ("text", "a")],
        ),
        (says([{"type": "thinking", "thinking": [text("hm")]}]), [("reasoning", "hm")]),
        (says([{"type": "reasoning", "text": "hm"}]), [("reasoning", "hm")]),
        (says([{"type": "reasoning"}]), []),
        (
            says("a", reasoning="hm", reasoning_content="hm"),
            [("text", "a"), ("reasoning", "hm")],
        ),
        (
            says("a", reasoning="x", reasoning_content="y"),
            [("text", "a"), ("reasoning", "x"), ("reasoning", "y")],
        ),
        (result("1", "out"), [("tool_result", "out"), ("id", "1")]),
        (result("1", [text("out")]), [("tool_result", "out"), ("id", "1")]),
        (
            {"role": "function", "name": "f", "content": "out"},
            [("tool_result", "out"), ("name", "f")],
        ),
        (
            user([{"type": "tool_result", "content": "a"}, {"content": [text("b")]}]),
            [("text", "a"), ("text", "b")],
        ),
        (
            user(
                [
                    {"type": "document", "source": {"type": "text", "data": "a"}},
                    {"type": "resource", "resource": {"text": "b"}},
                ]
            ),
            [("text", "a"), ("text", "b")],
        ),
        (
            says([{"type": "tool_use", "name": "f", "input": {"a": 1}}]),
            [("tool_call", "f"), ("tool_call", '{"a":1}')],
        ),
    ],
)
def test_every_text_of_a_message_is_a_piece(
    fields: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert _pieces(fields) == expected


def test_calls_give_their_names_and_arguments() -> None:
    custom = {"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    fields = says(tool_calls=[call("a"), call("b", {"n": HUGE}), custom, "odd", {"function": 3}])

    assert _pieces(fields) == [
        ("text", "ok"),
        ("tool_call", "get_weather"),
        ("tool_call", '{"city": "Paris"}'),
        ("tool_call", "get_weather"),
        ("tool_call", f'{{"n":{HUGE}}}'),
        ("tool_call", "sh"),
        ("tool_call", "ls"),
    ]
    assert _pieces(says(function_call={"name": "f", "arguments": "{}"}))[1:] == [
        ("tool_call", "f"),
        ("tool_call", "{}"),
    ]


def test_an_unknown_part_is_its_json_without_base64() -> None:
    part = {
        "type": "new",
        "a": ["x", "A" * 300, PIXEL + "A" * 300, SURROGATE],
        "b": "long words " * 30,
    }

    ((kind, found),) = _pieces(user([part]))

    assert kind == "text"
    assert found.startswith('{"type":"new","a":["x","","","half')
    assert "long words" in found


def test_a_very_deep_part_is_cut_off() -> None:
    part: Any = "deep"
    for _ in range(300):
        part = [{"content": [part]}]

    ((_, found),) = _pieces(user(part))

    assert "deep" not in found


@pytest.mark.parametrize(
    "around", [lambda part: [part], lambda part: {"a": part}], ids=["lists", "objects"]
)
def test_an_unknown_part_is_written_down_to_its_thirty_second_level(around: Any) -> None:
    part: Any = "deep"
    for _ in range(40):
        part = around(part)

    ((_, found),) = _pieces(user([part]))

    assert found.count("[") + found.count("{") == 32
    assert "deep" not in found


@given(odd_messages)
def test_any_message_can_be_looked_at_and_stays_what_it_was(fields: dict[str, Any]) -> None:
    before = copy.deepcopy(fields)
    message = Message(fields)

    for kind, words in message.pieces():
        assert isinstance(kind, str)
        assert isinstance(words, str)
    for medium in message.media():
        assert isinstance(_at(fields, medium.path), dict)
    _ = (message.role, message.calls_tools, message.call_ids, message.answers, message.canonical)

    assert fields == before


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_shapes_give_all_their_words(name: str) -> None:
    for fields in RECORDED[name]:
        words = " ".join(words for _, words in _pieces(fields))
        content = fields["content"]
        parts = [content] if isinstance(content, str) else content or []
        for part in parts:
            given = part if isinstance(part, str) else part.get("text", "")
            assert given in words
        assert PIXEL not in words


def test_another_content_leaves_the_other_fields() -> None:
    fields = result("1", "long") | {"extra": {"a": 1}}

    changed = Message(fields).with_content("short")

    assert changed.fields == {**fields, "content": "short"}
    assert fields["content"] == "long"


def test_another_part_copies_only_its_path() -> None:
    inner = {"type": "tool_result", "content": [text("see"), image()], "extra": [1]}
    fields = result("1", [text("x"), inner])
    before = copy.deepcopy(fields)
    message = Message(fields)
    (medium,) = message.media()

    changed = message.with_parts({medium.path: text("[image]")})

    assert fields == before
    assert changed.fields["content"][1]["content"][1] == text("[image]")
    assert changed.fields["content"][0] is fields["content"][0]
    assert changed.fields["content"][1]["content"][0] is inner["content"][0]
    assert changed.fields["content"][1]["extra"] is inner["extra"]


def test_no_other_parts_give_the_very_same_message() -> None:
    message = Message(user())

    assert message.with_parts({}) is message


def test_parts_at_several_paths_are_replaced_together() -> None:
    nested = {"type": "tool_result", "content": [text("a"), text("b"), text("c")]}
    fields = result("1", [text("x"), nested, text("y")])
    before = copy.deepcopy(fields)
    parts = {
        ("content", 0, "text"): "X",
        ("content", 1, "content", 0): text("A"),
        ("content", 1, "content", 2): text("C"),
        ("name",): "f",
    }

    changed = Message(fields).with_parts(parts).fields

    within = {**nested, "content": [text("A"), text("b"), text("C")]}
    assert changed == {**fields, "content": [text("X"), within, text("y")], "name": "f"}
    assert changed["content"][2] is fields["content"][2]
    assert changed["content"][1]["content"][1] is nested["content"][1]
    assert fields == before


class _CountedList(list[Any]):
    """A list that knows how often it was copied."""

    copies = 0

    def copy(self) -> "_CountedList":
        self.copies += 1
        return _CountedList(self)


def test_a_list_is_copied_once_however_many_of_its_parts_are_replaced() -> None:
    outer, inner = _CountedList([0]), _CountedList([text(str(at)) for at in range(99)])
    outer += [{"type": "tool_result", "content": inner}, text("end")]

    Message(user(outer)).with_parts(
        {("content", 1, "content", at, "text"): "new" for at in range(99)} | {("content", 2): 0}
    )

    assert (outer.copies, inner.copies) == (1, 1)


def test_a_list_that_stands_in_two_places_changes_in_one() -> None:
    shared = [text("a"), text("b")]
    nested = {"type": "tool_result", "content": shared}

    changed = Message(user([nested, nested])).with_parts({("content", 1, "content", 0): 0})

    assert changed.content == [nested, {**nested, "content": [0, text("b")]}]


@given(odd_messages, st.data())
def test_all_at_once_is_the_same_as_one_after_the_other(
    fields: dict[str, Any], data: st.DataObject
) -> None:
    paths = [path for path in _paths(fields) if not isinstance(_at(fields, path), dict | list)]
    chosen = data.draw(st.lists(st.sampled_from(paths), unique=True)) if paths else []
    parts = {path: f"new {number}" for number, path in enumerate(chosen)}
    before = copy.deepcopy(fields)

    expected = Message(fields)
    for path, part in parts.items():
        expected = expected.with_parts({path: part})

    assert Message(fields).with_parts(parts).fields == expected.fields
    assert fields == before


@given(odd_messages, values, st.data())
def test_any_part_can_be_replaced_and_nothing_else_moves(
    fields: dict[str, Any], part: Any, data: st.DataObject
) -> None:
    paths = list(_paths(fields))
    path = data.draw(st.sampled_from(paths)) if paths else ("content",)
    before = copy.deepcopy(fields)

    changed = Message(fields).with_parts({path: part}).fields

    assert fields == before
    assert _at(changed, path) is part
    untouched = [other for other in paths if other[: len(path)] != path]
    assert all(
        _at(changed, other) is _at(fields, other)
        for other in untouched
        if path[: len(other)] != other
    )


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    found = []
    for step, inner in items:
        found += [(*path, step), *_paths(inner, (*path, step))]
    return found


def test_calls_are_seen_in_a_message_without_any_content() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    given = Message({"role": "assistant", "tool_calls": [call]})

    assert list(given.pieces()) == [("tool_call", "f"), ("tool_call", "{}")]
