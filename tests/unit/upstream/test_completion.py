"""Whole completions for the proxy's own questions: streams, documents, refusals, nonsense."""

import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from chat_proxy.errors import UpstreamError, UpstreamInvalidResponse, UpstreamResponseTooLarge
from chat_proxy.upstream.client import Call, Upstream, UpstreamPolicy
from chat_proxy.upstream.completion import NotAnswered, complete
from chat_proxy.wires.answers import Completion, parsed_document
from chat_proxy.wires.chat_completions import ChatAnswers
from chat_proxy.wires.usage import Usage
from tests.support.fake_model import (
    COMPLETION,
    DONE,
    Behaviour,
    FakeModel,
    Line,
    Received,
    answer_json,
    begin_stream,
    delta,
    event,
    fake_model,
    story,
)
from tests.support.live import eventually
from tests.support.meeting import cut

pytestmark = pytest.mark.anyio

POLICY = UpstreamPolicy(None, 5, 2.5, 0, 30)
FORM = ChatAnswers()
completion_in_events = FORM.completion_in_events


def completion_in_document(body: bytes) -> Completion:
    """Return what is understood of a whole answer."""
    return FORM.completion_in_document(parsed_document(body))


@asynccontextmanager
async def asking(behaviour: Behaviour) -> AsyncIterator[tuple[FakeModel, Upstream]]:
    """Run a model that behaves so, and an upstream to ask it by."""
    upstream = Upstream(POLICY)
    upstream.open()
    try:
        async with fake_model(behaviour) as model:
            yield model, upstream
    finally:
        await upstream.close()


async def asked(behaviour: Behaviour) -> Completion:
    """Return what is understood of a model that behaves so."""
    async with asking(behaviour) as (model, upstream):
        return await complete(upstream, call_to(model), FORM)


def call_to(model: FakeModel) -> Call:
    return Call("POST", model.url, "/chat/completions", [], b"{}")


def streaming(*pieces: bytes) -> Behaviour:
    """Answer with a stream of these pieces."""

    async def behave(_: Received, line: Line) -> None:
        await begin_stream(line)
        for piece in (*pieces, b""):
            await line.chunk(piece)

    return behave


def answering(document: object, status: int = 200, *headers: str) -> Behaviour:
    """Answer with a document."""

    async def behave(_: Received, line: Line) -> None:
        await answer_json(line, document, status, *headers)

    return behave


def document(message: Any, **more: Any) -> bytes:
    """A whole completion with this message."""
    choice = {"index": 0, "message": message, "finish_reason": "stop", **more}
    return json.dumps({"choices": [choice]}).encode()


def chunk(said: Any, finish_reason: Any = None, **more: Any) -> bytes:
    """An event with this delta."""
    choice = {"index": 0, "delta": said, "finish_reason": finish_reason, **more}
    return event({"choices": [choice]})


async def test_a_stream_is_read_to_its_end() -> None:
    said = await asked(streaming(*story(3)))

    assert said.text == "word0 word1 word2 "
    assert said.finish_reason == "stop"
    assert said.usage is None
    assert (said.calls_tools, said.refuses) == (False, False)


async def test_a_document_is_understood_where_a_stream_was_asked_for() -> None:
    said = await asked(answering(COMPLETION))

    assert said.text == "Hello from the fake model."
    assert said.usage == Usage(11, 6, 0)


async def test_events_may_be_cut_anywhere_on_their_way() -> None:
    whole = b"".join(story(3))
    said = await asked(streaming(*(whole[place : place + 1] for place in range(len(whole)))))

    assert said.text == "word0 word1 word2 "


async def test_a_connection_serves_the_next_question_too() -> None:
    """What was read to its end goes back into the pool."""
    async with asking(streaming(*story())) as (model, upstream):
        for _ in range(3):
            await complete(upstream, call_to(model), FORM)

    assert model.connections == 1


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_an_error_is_no_completion(status: int) -> None:
    """BUGS 26: an error's text never becomes a summary."""
    with pytest.raises(NotAnswered) as raised:
        await asked(answering({"error": {"message": "## Goal"}}, status))

    assert raised.value.status == status
    assert raised.value.retry_after is None


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("7", 7), (" 7 ", 7), ("0", 0), ("9999999999", 60), ("-3", None), ("soon", None), ("", None)],
)
async def test_an_upstream_that_wants_to_be_left_alone_is_heard_within_reason(
    told: str, seconds: float | None
) -> None:
    with pytest.raises(NotAnswered) as raised:
        await asked(answering({}, 429, f"retry-after: {told}"))

    assert raised.value.retry_after == seconds


async def test_an_error_among_the_events_is_no_completion() -> None:
    """BUGS 26: what was said before it is half a summary at best."""
    with pytest.raises(UpstreamInvalidResponse):
        await asked(streaming(delta("## Goal"), event({"error": {"message": "no"}}), DONE))


async def test_a_compressed_answer_is_refused_unread() -> None:
    """FAULTS B22: nobody asked for it, and it may be a bomb."""

    async def behave(_: Received, line: Line) -> None:
        body = gzip.compress(json.dumps(COMPLETION).encode())
        await line.head(200, "content-encoding: gzip", f"content-length: {len(body)}")
        await line.send(body)

    with pytest.raises(UpstreamInvalidResponse):
        await asked(behave)


async def test_an_answer_without_end_is_cut_off() -> None:
    """FAULTS B22: and the connection is closed at once."""

    async def behave(_: Received, line: Line) -> None:
        await begin_stream(line)
        while True:
            await line.chunk(delta("x" * 65_536))

    async with asking(behave) as (model, upstream):
        with pytest.raises(UpstreamResponseTooLarge):
            await complete(upstream, call_to(model), FORM)
        await eventually(lambda: model.open_connections == 0)


async def test_a_connection_that_breaks_is_no_completion() -> None:
    async def behave(_: Received, line: Line) -> None:
        await begin_stream(line)
        await line.chunk(delta("## Goal"))
        cut(line)

    with pytest.raises(UpstreamError):
        await asked(behave)


async def test_a_stream_that_ends_in_the_middle_is_no_completion() -> None:
    """FAULTS B9: neither a reason to end nor [DONE], so nobody knows what is missing."""
    with pytest.raises(UpstreamError):
        await asked(streaming(delta("## Goal"), delta("- half a")))


async def test_a_stream_without_done_is_whole_if_it_says_why_it_ended() -> None:
    """Some servers leave it out, and a missing reason is forgiven behind it."""
    assert (await asked(streaming(delta("a"), delta(finish_reason="stop")))).text == "a"
    assert (await asked(streaming(delta("a"), DONE))).text == "a"


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b"3", b'{"choices": [', b"<html>"])
def test_a_document_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(UpstreamInvalidResponse):
        completion_in_document(body)


@pytest.mark.parametrize("body", [b"data: no\n\n", b"data: []\n\n", b'data: {"choices"\n\n'])
def test_an_event_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(UpstreamInvalidResponse):
        completion_in_events(body)


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"choices": null}', b'{"choices": {}}', b'{"choices": [7]}', b'{"choices": [{}]}'],
)
def test_an_answer_without_a_choice_says_nothing(body: bytes) -> None:
    assert completion_in_document(body).text == ""


@pytest.mark.parametrize("message", [None, "words", 7, [], {}, {"content": None}, {"content": 7}])
def test_a_message_without_words_says_nothing(message: Any) -> None:
    said = completion_in_document(document(message))

    assert said.text == ""
    assert said.finish_reason == "stop"


def test_content_in_parts_is_put_together() -> None:
    parts = [{"type": "text", "text": "one "}, {"text": 7}, "odd", {"type": "text", "text": "two"}]

    assert completion_in_document(document({"content": parts})).text == "one two"


def test_only_the_first_choice_is_heard() -> None:
    """A model that answers twice has one answer here."""
    body = chunk({"content": "one"}) + chunk({"content": "two"}, index=1) + chunk({}, "stop")

    assert completion_in_events(body).text == "one"


def test_a_choice_without_an_index_is_the_first() -> None:
    body = json.dumps({"choices": [{"message": {"content": "one"}}]}).encode()

    assert completion_in_document(body).text == "one"


@pytest.mark.parametrize("field", ["tool_calls", "function_call"])
def test_calls_of_tools_are_noticed(field: str) -> None:
    """FAULTS C7: whatever the model says the answer ended with."""
    assert completion_in_events(chunk({field: [{"id": "c"}]}) + DONE).calls_tools
    assert completion_in_document(document({"content": "", field: {"name": "f"}})).calls_tools
    assert not completion_in_document(document({"content": "", field: None})).calls_tools


def test_a_refusal_is_noticed() -> None:
    """FAULTS C4: in a field of its own."""
    assert completion_in_events(chunk({"refusal": "No."}, "stop")).refuses
    assert not completion_in_document(document({"content": "x", "refusal": None})).refuses


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_are_noticed_and_not_kept(field: str) -> None:
    """BUGS 25: they are told apart from what is said."""
    said = completion_in_events(chunk({field: "Hm."}) + chunk({"content": "So."}, "stop"))

    assert said.text == "So."


def test_the_last_reason_to_end_counts() -> None:
    body = chunk({"content": "a"}) + chunk({}, "length") + chunk({}, None) + chunk({}, 7)

    assert completion_in_events(body).finish_reason == "length"


def test_the_usage_behind_the_last_choice_is_read() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    body = delta("a") + event({"choices": [], "usage": usage}) + event({"choices": []}) + DONE

    assert completion_in_events(body).usage == Usage(9, 2, 0)


@pytest.mark.parametrize(
    ("details", "cached"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 7}}, 7),
        ({"prompt_tokens_details": {"cached_tokens": 0}}, 0),
        ({"prompt_tokens_details": {"cached_tokens": -1}}, 0),
        ({"prompt_tokens_details": {"cached_tokens": None}}, None),
        ({"prompt_tokens_details": {"cached_tokens": True}}, None),
        ({"prompt_tokens_details": {}}, None),
        ({"prompt_tokens_details": None}, None),
        ({}, None),
    ],
)
def test_no_cached_tokens_and_no_report_of_them_are_two_things(
    details: dict[str, object], cached: int | None
) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, **details}
    events = delta("a") + event({"choices": [], "usage": usage}) + event({"choices": []}) + DONE
    document = json.dumps({"choices": [{"message": {"content": "a"}}], "usage": usage}).encode()

    for said in (completion_in_events(events), completion_in_document(document)):
        assert said.cached_tokens == cached
        assert said.usage == Usage(9, 2, cached or 0)


@pytest.mark.parametrize("ending", ["\n\n", "\r\n\r\n", "\r\r"])
def test_comments_other_fields_and_line_ends_do_not_matter(ending: str) -> None:
    """FAULTS B15: every form of a stream that is seen on the wire."""
    data = chunk({"content": "one"}).decode().strip()
    lines = [": ping", "event: message", "id: 7", data.replace("data: ", "data:"), "data: [DONE]"]

    assert completion_in_events(ending.join([*lines, "data:", ""]).encode()).text == "one"
