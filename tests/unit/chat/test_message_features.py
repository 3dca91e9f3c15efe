"""What contents are like, as far as whole stages need to know."""

from typing import Any

import pytest

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message_features import MessageFeatures, shape_of
from chat_proxy.chat.result_texts import MAX_EXAMINED_CHARS
from tests.unit.chat.payloads import ENCODED, PROSE
from tests.unit.compaction.stages.truncating import folded

PART = {"type": "text", "text": "hi"}


@pytest.mark.parametrize(
    ("contents", "is_plain"),
    [([], True), (["a", None], True), (["a", [PART]], False), ([PART], False), ([0], False)],
)
def test_only_texts_and_nothing_are_plain(contents: list[Any], is_plain: bool) -> None:
    messages = [{"role": "user", "content": content} for content in contents]

    assert shape_of(messages).is_plain == is_plain


def test_a_message_without_content_is_plain() -> None:
    assert shape_of([{"role": "assistant"}]) == MessageFeatures()


@pytest.mark.parametrize("role", ["tool", "function", "assistant"])
def test_the_longest_text_with_a_result_counts_whatever_comes_behind(role: str) -> None:
    messages = [{"role": role, "content": "x" * size} for size in (3, 7, 5)]

    assert shape_of(messages).longest_result == 7


@pytest.mark.parametrize("role", ["user", "system", "developer", None])
def test_what_can_hold_no_result_is_not_among_the_longest(role: str | None) -> None:
    assert shape_of([{"role": role, "content": "x" * 9}]).longest_result == 0


def test_letters_that_take_several_bytes_are_never_taken_for_too_few() -> None:
    for text in ("ü" * 10, "漢" * 10, "🙂" * 10, "\ud83d" * 10):
        encoded = text.encode("utf-8", "surrogatepass")

        assert shape_of([{"role": "tool", "content": text}]).longest_result >= len(encoded)


def test_a_shorter_text_of_wide_letters_may_be_the_longest() -> None:
    messages = [{"role": "tool", "content": text} for text in ("x" * 10, "漢" * 9)]

    assert shape_of(messages).longest_result >= 27


@pytest.mark.parametrize("role", ["tool", "function"])
def test_base64_in_a_result_counts_whatever_comes_before_and_after(role: str) -> None:
    contents = ["short", PROSE, f"{PROSE}{ENCODED}", PROSE]
    messages = [{"role": role, "content": content} for content in contents]

    assert shape_of(messages).may_have_base64
    assert shape_of(messages[:2]).combined_with(shape_of(messages[2:])).may_have_base64
    assert shape_of(messages[2:]).combined_with(shape_of(messages[:2])).may_have_base64
    assert not shape_of(messages[:2]).may_have_base64


@pytest.mark.parametrize("role", ["user", "system", "developer", "assistant", None])
def test_base64_in_a_text_without_a_result_does_not_count(role: str | None) -> None:
    assert not shape_of([{"role": role, "content": f"{PROSE}{ENCODED}"}]).may_have_base64


def test_base64_in_an_embedded_result_counts() -> None:
    content = f"Look: {folded(f'{PROSE}{ENCODED}')}"

    assert shape_of([{"role": "assistant", "content": content}]).may_have_base64


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": f"{PROSE}{ENCODED}"}],
        [PART, {"type": "tool_result", "content": [PART, {"text": f"{PROSE}{ENCODED}"}]}],
        {"type": "text", "text": f"{PROSE}{ENCODED}"},
        [f"{PROSE}{ENCODED}"],
    ],
)
def test_base64_in_the_parts_of_a_result_counts(content: Any) -> None:
    assert shape_of([{"role": "tool", "content": content}]).may_have_base64
    assert not shape_of([{"role": "assistant", "content": content}]).may_have_base64
    assert not shape_of([{"role": "tool", "content": [PART]}]).may_have_base64


def test_parts_with_embedded_results_count() -> None:
    parts = [PART, {"type": "text", "text": folded(f"{PROSE}{ENCODED}")}]

    assert shape_of([{"role": "assistant", "content": parts}]).may_have_base64


def test_media_are_no_base64_in_a_text() -> None:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{ENCODED}"}}

    assert not shape_of([{"role": "tool", "content": [PART, picture]}]).may_have_base64


def test_letters_without_end_count_as_base64_because_looking_closer_costs_too_much() -> None:
    few, many = ({"role": "tool", "content": "x" * (MAX_EXAMINED_CHARS // n)} for n in (2, 1))

    assert not shape_of([few]).may_have_base64
    assert shape_of([few, few]).may_have_base64
    assert shape_of([many]).may_have_base64


def test_a_conversation_finds_out_once() -> None:
    conversation = Conversation.of([{"role": "user", "content": [PART]}])

    assert conversation is not None
    assert conversation.shape is conversation.shape
    assert not conversation.shape.is_plain
