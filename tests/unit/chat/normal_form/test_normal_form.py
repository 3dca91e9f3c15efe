"""The normal form of a message: what is left out of it, and what tells two messages apart."""

import json
from typing import Any

import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from chat_proxy.chat.normal_form import normal_form
from chat_proxy.chat.normal_form.normal_form import NormalMessage, normal_forms
from chat_proxy.chat.normal_form.volatile_blocks import VolatileBlocks
from tests.unit.chat.shapes import (
    HUGE,
    PIXEL,
    RECORDED,
    SURROGATE,
    Fields,
    call,
    calls,
    image,
    odd_messages,
    ordinary_messages,
    result,
    says,
    system,
    text,
    user,
)

VOLATILE = VolatileBlocks(("env", "system-reminder"))
REMINDER = "<system-reminder>Be brief.</system-reminder>"
NOTE = "[Old inline media cleared: image/png]"
OTHER_PIXEL = PIXEL.replace("AAAB", "AAAC")


def forms(*messages: Fields) -> list[NormalMessage]:
    return list(normal_forms(messages, VOLATILE))


def form(message: Fields) -> NormalMessage:
    return forms(message)[0]


def calling(arguments: Any, **more: Any) -> Fields:
    return says(None, tool_calls=[call("1", arguments)], **more)


SAME = {
    "text or parts": (user("hi"), user([text("hi")])),
    "text or several parts": (user("hi there"), user([text("hi"), text("there")])),
    "parts of other names": (user("hi"), user([{"type": "input_text", "text": "hi"}])),
    "a part without a type": (user("hi"), user([{"text": "hi"}])),
    "a part that is a string": (user("hi"), user(["hi"])),
    "space at the end": (user("hi"), user("hi \n")),
    "space between words": (user("a b"), user("a\n\n b")),
    "an empty part": (user("hi"), user([text("hi"), text("")])),
    "null or empty": (calls("1"), {**calls("1"), "content": ""}),
    "null or missing": (calls("1"), {"role": "assistant", "tool_calls": [call("1")]}),
    "null or no parts": (says(None), says([])),
    "a cache mark": (user("hi"), {**user("hi"), "cache_control": {"type": "ephemeral"}}),
    "a cache mark of a part": (user("hi"), user([text("hi", cache_control={"type": "x"})])),
    "the id of a message": (says("ok"), says("ok", id="msg_1")),
    "the id of a call": (calls("1"), calls("another")),
    "annotations": (says("ok"), says("ok", annotations=[{"url": "x"}])),
    "null fields": (says("ok"), says("ok", refusal=None, audio=None, tool_calls=[])),
    "reasoning": (says("ok"), says("ok", reasoning_content="hm", reasoning="hm", thinking="hm")),
    "reasoning details": (says("ok"), says("ok", reasoning_details=[{"text": "hm"}])),
    "a reasoning part": (says("ok"), says([{"type": "thinking", "thinking": "hm"}, text("ok")])),
    "thoughts": (says("ok"), says("<think>\nhm\n</think>\n\nok")),
    "thoughts that begin in the prompt": (says("ok"), says("hm\n</think>\nok")),
    "the order of arguments": (calling('{"a":1,"b":2}'), calling('{"b":2,"a":1}')),
    "spaces in arguments": (calling('{"a":1,"b":[2]}'), calling(' {"a": 1,\n "b": [2]} ')),
    "escapes in arguments": (calling('{"a":"é"}'), calling('{"a":"\\u00e9"}')),
    "arguments as an object": (calling('{"a":1}'), calling({"a": 1})),
    "no arguments": (calling("{}"), calling("")),
    "a call as a part": (
        calling('{"city": "Paris"}'),
        says([{"type": "tool_use", "id": "x", "name": "get_weather", "input": {"city": "Paris"}}]),
    ),
    "a volatile block": (user("hi"), user("hi <env>12:00</env>")),
    "another volatile block": (user("hi <env>1</env> !"), user("hi <env>2</env>\n!")),
    "a block in a part of its own": (user("hi"), user([text("hi"), text("<env>1</env>")])),
    "a reminder after a result": (result("1", "20C"), result("1", f"20C\n\n{REMINDER}\n")),
    "the name of a result's tool": (result("1"), {**result("1"), "name": "get_weather"}),
    "the text of a result in parts": (result("1", "a\nb"), result("1", [text("a"), text("b")])),
    "the same medium elsewhere": (user([image(), text("hi")]), user([text("hi"), image()])),
    "the same medium in other words": (
        user([image()]),
        user([{"type": "input_image", "image_url": PIXEL}]),
    ),
    "the detail of a medium": (user([image()]), user([image(detail="low")])),
    "the mark of a medium": (user([image()]), user([{**image(), "cache_control": {}}])),
}
OTHER = {
    "a word": (user("hi"), user("ho")),
    "a word's case": (user("hi"), user("Hi")),
    "the role": (user("hi"), says("hi")),
    "an instruction within the history": (system("a"), system("b")),
    "the user's name": (user("hi"), {**user("hi"), "name": "eve"}),
    "a refusal": (says(None, refusal="no"), says(None, refusal="never")),
    "a refusal without content": (
        {"role": "assistant", "refusal": "no"},
        {"role": "assistant", "refusal": "never"},
    ),
    "an unknown field": (says("ok"), says("ok", new=0)),
    "a call's name": (
        calls("1"),
        says(None, tool_calls=[{"id": "1", "function": {"name": "f", "arguments": "{}"}}]),
    ),
    "an argument": (calling('{"a":1}'), calling('{"a":2}')),
    "the type of an argument": (calling('{"a":1}'), calling('{"a":"1"}')),
    "the order of a list in arguments": (calling('{"a":[1,2]}'), calling('{"a":[2,1]}')),
    "a long number": (calling(json.dumps({"a": HUGE})), calling(json.dumps({"a": HUGE + 1}))),
    "arguments that are no JSON": (calling("{a"), calling("{b")),
    "one call more": (calls("1"), calls("1", "2")),
    "a call instead of words": (calls("1"), says("1")),
    "a legacy call": (
        says(None, function_call={"name": "f", "arguments": "{}"}),
        says(None, function_call={"name": "g", "arguments": "{}"}),
    ),
    "a call of another type": (
        says(None, tool_calls=[{"id": "1", "type": "mcp", "mcp": {"name": "f", "input": "1"}}]),
        says(None, tool_calls=[{"id": "1", "type": "mcp", "mcp": {"name": "f", "input": "2"}}]),
    ),
    "a result's text": (result("1", "20C"), result("1", "21C")),
    "a space within a result": (result("1", "a b"), result("1", "a  b")),
    "an unclosed block": (user("hi <env>1"), user("hi <env>2")),
    "another tag": (user("<data>1</data>"), user("<data>2</data>")),
    "a volatile block in a result": (result("1", "<env>1</env>"), result("1", "<env>2</env>")),
    "a volatile block in an answer": (says("<env>1</env>"), says("<env>2</env>")),
    "a volatile block in a result part": (
        user([{"type": "tool_result", "content": "<env>1</env>"}]),
        user([{"type": "tool_result", "content": "<env>2</env>"}]),
    ),
    "a space within a result part": (
        user([{"type": "tool_result", "content": "a b"}]),
        user([{"type": "tool_result", "content": "a  b"}]),
    ),
    "a reminder within a result": (
        result("1", f"{REMINDER} then"),
        result("1", "<system-reminder>No.</system-reminder> then"),
    ),
    "thoughts that are quoted": (says("Write <think>a</think>."), says("Write <think>b</think>.")),
    "an embedded result before the end of thoughts": (
        says('<details type="tool_calls" result="1"></details>hm</think>ok'),
        says('<details type="tool_calls" result="2"></details>hm</think>ok'),
    ),
    "a medium": (user([image()]), user([image(OTHER_PIXEL)])),
    "a later frame of a video": (
        user([{"type": "video", "video": ["a", "b"]}]),
        user([{"type": "video", "video": ["a", "c"]}]),
    ),
    "a medium's address": (user([image("http://a/1.png")]), user([image("http://a/2.png")])),
    "the order of media": (
        user([image(), image(OTHER_PIXEL)]),
        user([image(OTHER_PIXEL), image()]),
    ),
    "the id of a file": (
        user([{"type": "file", "file": {"file_id": "f1"}}]),
        user([{"type": "file", "file": {"file_id": "f2"}}]),
    ),
    "a medium or its note": (user([image()]), user([text(NOTE)])),
    "a note about another medium": (user("[image: a.png]"), user("[image: b.png]")),
    "a note in a result": (result("1", "[image: a.png]"), result("1", "[image: b.png]")),
    "a medium in a result": (result("1", [image()]), result("1", [image(OTHER_PIXEL)])),
    "an unknown part": (user([{"type": "new", "x": 1}]), user([{"type": "new", "x": 2}])),
    "content of another type": (user(1), user(2)),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_it_is_the_same_message(one: Fields, other: Fields) -> None:
    assert form(one) == form(other)


@pytest.mark.parametrize(("one", "other"), OTHER.values(), ids=OTHER)
def test_it_is_another_message(one: Fields, other: Fields) -> None:
    assert form(one) != form(other)


def test_results_are_told_apart_by_their_calls() -> None:
    given = (calls("1", "2"), result("1", "same"), result("2", "same"))
    renamed = (calls("x", "y"), result("x", "same"), result("y", "same"))
    swapped = (calls("1", "2"), result("2", "same"), result("1", "same"))

    assert forms(*given) == forms(*renamed)
    assert forms(*given)[1:] != forms(*swapped)[1:]


def test_the_result_of_a_single_call_is_recognised_without_it() -> None:
    assert forms(calls("1"), result("1"))[1] == form(result("1"))


def test_ids_that_are_used_again_belong_to_the_newest_call() -> None:
    first, again = calls("1", "2"), calls("2", "1")

    assert forms(first, again, result("1"))[2] == forms(calls("x", "1"), result("1"))[1]


def test_a_lost_medium_leaves_the_rest_of_the_message() -> None:
    whole = form(user([text("see"), image()]))
    lost = form(user([text("see"), text(NOTE)]))
    dropped = form(user("see"))

    assert whole.said == lost.said == dropped.said
    assert (whole.has_media, lost.has_media, dropped.has_media) == (True, False, False)
    assert len({whole.media, lost.media, dropped.media}) == 3


def test_only_a_result_gives_its_text() -> None:
    assert form(result("1", f"20C {REMINDER}")).text == "20C"
    assert form(result("1", "[Old tool result content cleared]")).kind == "result"
    assert form(user("hi")).text == ""
    assert form(says("hi")).text == ""


@pytest.mark.parametrize(
    "content",
    [
        "[read_file for 'a.py'] Result:\nx = 1\n<env>12:00</env>",
        [text("[read_file for 'a.py'] Result:"), text("x = 1"), text("<env>12:00</env>")],
    ],
)
def test_a_user_message_that_is_the_result_of_a_call_in_text_is_a_result(content: Any) -> None:
    """Cline writes its calls and results into the texts."""
    given = form(user(content))

    assert (given.kind, given.text) == ("result", "x = 1")
    assert given.said != form(user("[read_file for 'b.py'] Result: x = 1")).said


def test_a_user_who_writes_of_results_is_no_tool() -> None:
    assert form(user("The [read_file for 'a.py'] Result: is odd")).kind == "user"
    assert form(user("[Result: 1")).kind == "user"


def test_texts_do_not_run_over_into_fields_or_calls() -> None:
    plain = says('x\x00{"arguments":{"city":"Paris"},"name":"get_weather"}')

    assert form(plain).said != form(says("x", tool_calls=[call("1")])).said


@pytest.mark.parametrize("depth", [100, 250, 900, 1_020, 50_000])
def test_arguments_that_are_nested_deeply_are_told_apart(depth: int) -> None:
    def nested(inner: str) -> str:
        return '{"a":' + "[" * depth + inner + "]" * depth + "}"

    assert form(calling(nested("1"))) == form(calling(nested("1")))
    assert form(calling(nested("1"))) != form(calling(nested("2")))


def test_lone_surrogates_are_read_and_told_apart_from_their_replacement() -> None:
    assert form(user(SURROGATE)) != form(user("half \ufffd"))
    assert form(result("1", SURROGATE)).text == SURROGATE


@pytest.mark.parametrize("messages", RECORDED.values(), ids=RECORDED)
def test_recorded_messages_have_a_form_that_a_copy_shares(messages: list[Fields]) -> None:
    copied = json.loads(json.dumps(messages, sort_keys=True))

    assert forms(*messages) == forms(*copied)


@examples(st.lists(odd_messages | ordinary_messages, max_size=6))
def test_no_message_is_too_odd(messages: list[Fields]) -> None:
    assert len(forms(*messages)) == len(messages)


@examples(st.text(st.sampled_from("ab \n\t\u2003\x1f"), max_size=60), st.integers(1, 9))
def test_a_long_text_is_split_as_a_short_one(given: str, piece: int) -> None:
    """Piece by piece, so that it does not keep other threads waiting."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normal_form, "_PIECE_CHARS", piece)

        assert form(user(given)).text == form(user(" ".join(given.split()))).text
        assert normal_form._words(given) == " ".join(given.split())
