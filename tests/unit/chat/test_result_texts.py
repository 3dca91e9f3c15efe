import copy
from typing import Any

import pytest
from hypothesis import given

from chat_proxy.chat.media import MAX_DEPTH
from chat_proxy.chat.message import Message
from chat_proxy.chat.result_texts import texts_in, with_plain_parts_joined
from tests.unit.chat.shapes import Fields, image, odd_messages, result, text


def _texts(content: Any) -> list[str]:
    return [words for _, words in texts_in(Message(result("1", content)))]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a", ["a"]),
        (["a", text("b"), {"text": "c"}], ["a", "b", "c"]),
        ([{"type": "tool_result", "content": "a"}], ["a"]),
        ([{"type": "tool_result", "content": [text("a"), image(), text("b")]}], ["a", "b"]),
        ([{"type": "document", "source": {"type": "text", "data": "a"}}], ["a"]),
        ([{"type": "document", "source": {"type": "content", "content": [text("a")]}}], ["a"]),
        ([{"type": "resource", "resource": {"text": "a", "uri": "x"}}], ["a"]),
        ({"type": "text", "text": "a"}, ["a"]),
        ([image(), {"type": "other", "x": "a"}, {"type": "text", "text": 1}, 7, None], []),
        (None, []),
    ],
)
def test_every_text_of_a_result_is_found(content: Any, expected: list[str]) -> None:
    """BUGS 39."""
    assert _texts(content) == expected


@pytest.mark.parametrize(("levels", "expected"), [(MAX_DEPTH - 1, ["a"]), (MAX_DEPTH, [])])
def test_texts_are_looked_for_as_deep_as_media(levels: int, expected: list[str]) -> None:
    content: list[Any] = [text("a")]
    for _ in range(levels):
        content = [{"type": "tool_result", "content": content}]

    assert _texts(content) == expected


def test_parts_of_nothing_but_text_become_one_at_the_place_of_the_first() -> None:
    marked = text("c", cache_control={"type": "ephemeral"})
    message = Message(result("1", [image(), text("a"), marked, "b", {"text": "d"}]))

    outcome = with_plain_parts_joined(message)

    assert outcome.fields == result("1", [image(), text("a\nb\nd"), marked])


def test_plain_strings_become_one_string() -> None:
    assert with_plain_parts_joined(Message(result("1", ["a", "b"]))).content == ["a\nb"]


_OTHER = {"type": "other", "text": "b"}


@pytest.mark.parametrize(
    "content", ["a", None, [text("a"), image()], [], [text("a", x=1)], [text("a"), _OTHER, _OTHER]]
)
def test_nothing_to_join_gives_the_very_same_message(content: Any) -> None:
    message = Message(result("1", content))

    assert with_plain_parts_joined(message) is message


@given(odd_messages)
def test_every_text_can_be_changed_in_a_copy(fields: Fields) -> None:
    before = copy.deepcopy(fields)
    message = Message(fields)
    placed = texts_in(message)

    changed = message.with_parts({path: words + "!" for path, words in placed})

    assert texts_in(changed) == [(path, words + "!") for path, words in placed]
    with_plain_parts_joined(message)
    assert fields == before
