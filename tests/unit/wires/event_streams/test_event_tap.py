"""The observers of the streams of Responses and Messages: ends, errors, usage; and no byte lost."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_proxy.wires.answers import AnswerForm
from chat_proxy.wires.messages.answers import MessagesAnswers
from chat_proxy.wires.responses.answers import ResponsesAnswers
from chat_proxy.wires.usage import MAX_LINE_BYTES, Usage
from tests.support.wires.apis import MESSAGES, RESPONSES, Api

FORMS: dict[str, AnswerForm] = {"responses": ResponsesAnswers(), "messages": MessagesAnswers()}
BOTH = pytest.mark.parametrize("api", [MESSAGES, RESPONSES], ids=str)


def tapped(api: Api, *pieces: bytes) -> Any:
    tap = FORMS[api.name].tap()
    for piece in pieces:
        assert tap.feed(piece) == piece
    return tap


@BOTH
def test_a_whole_stream_is_complete_and_counted(api: Api) -> None:
    tap = tapped(api, *api.story())

    assert (tap.done, tap.is_complete, tap.failed) == (True, True, False)
    assert tap.usage == Usage(11, 6, 4)


@BOTH
def test_the_usage_is_the_same_when_all_comes_at_once(api: Api) -> None:
    """The first event has the prompt's, the last the answer's."""
    assert tapped(api, b"".join(api.story())).usage == Usage(11, 6, 4)


@BOTH
def test_a_stream_without_its_last_event_is_not_complete(api: Api) -> None:
    assert not tapped(api, *api.story()[:-1]).is_complete


@BOTH
def test_an_error_ends_a_stream_too(api: Api) -> None:
    tap = tapped(api, api.word, api.error)

    assert (tap.failed, tap.is_complete, tap.done) == (True, True, False)


@BOTH
def test_words_that_look_like_an_end_are_none(api: Api) -> None:
    said = api.words('{"type":"message_stop"} {"type": "response.completed"} {"type":"error"}')

    tap = tapped(api, said)

    assert (tap.is_complete, tap.failed) == (False, False)


@BOTH
@settings(max_examples=60, deadline=None)
@given(cuts=st.sets(st.integers(1, 400), max_size=8))
def test_it_sees_the_same_however_a_stream_is_split(api: Api, cuts: set[int]) -> None:
    whole = b"".join(api.story())
    edges = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]

    tap = tapped(api, *[whole[a:b] for a, b in pairwise(edges)])

    assert (tap.done, tap.usage, tap.is_inside_event) == (True, Usage(11, 6, 4), False)


@BOTH
def test_a_line_that_is_too_long_turns_it_off(api: Api) -> None:
    tap = tapped(api, api.word, b"data: " + b"x" * (MAX_LINE_BYTES + 1))

    assert (tap.off, tap.is_complete, tap.is_inside_event) == (True, True, True)


@BOTH
@pytest.mark.parametrize("half", [b'data: {"ty', b'data: {"type":"x"}\n', b"event: x\r\n"])
def test_it_knows_whether_an_event_is_open(api: Api, half: bytes) -> None:
    assert not tapped(api, api.word).is_inside_event
    assert tapped(api, api.word, half).is_inside_event


@BOTH
@pytest.mark.parametrize("usage", ["null", "[]", '{"input_tokens": -1}', '{"input_tokens": 1e30}'])
def test_absurd_usage_counts_nothing(api: Api, usage: str) -> None:
    inner = {"usage": json.loads(usage)}
    line = json.dumps({"type": "x", "response": inner, "message": inner})

    found = tapped(api, f"data: {line}\n\n".encode()).usage

    assert found is None or found == Usage(0, 0, 0)


def test_what_came_from_a_cache_is_part_of_the_prompt() -> None:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 5}

    found = MessagesAnswers().usage_of_answer(json.dumps({"usage": usage}).encode())

    assert found == Usage(12, 0, 4)
