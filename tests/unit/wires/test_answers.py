"""The form of each wire's answers: errors, refusals for length, and answers of the proxy's own."""

import json
from typing import Any

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from chat_proxy.errors import (
    BadRequest,
    ProxyError,
    UpstreamInvalidResponse,
    UpstreamReset,
    UpstreamTruncated,
)
from chat_proxy.wires.answers import AnswerForm, Reply, data_events, named_event
from chat_proxy.wires.chat_completions import ChatAnswers
from chat_proxy.wires.messages.answers import MessagesAnswers
from chat_proxy.wires.responses.answers import ResponsesAnswers
from tests.support.wires.apis import APIS, MESSAGES, RESPONSES, Api

FORMS: dict[str, AnswerForm] = {
    "chat": ChatAnswers(),
    "responses": ResponsesAnswers(),
    "messages": MessagesAnswers(),
}
ALL = pytest.mark.parametrize("api", APIS, ids=str)
REPLY = Reply("Compacted.", "fake", "req-1", 1)


def form_of(api: Api) -> AnswerForm:
    return FORMS[api.name]


@ALL
def test_a_stream_and_a_whole_answer_say_the_same(api: Api) -> None:
    form = form_of(api)

    streamed = form.completion_in_events(b"".join(api.story()))
    whole = form.completion_in_document(api.whole)

    assert streamed.text in ("word word word ", "Hello.")
    assert whole.text.startswith("Hello")
    assert streamed.finish_reason == whole.finish_reason == "stop"


@ALL
def test_a_stream_with_an_error_is_no_completion(api: Api) -> None:
    with pytest.raises(UpstreamInvalidResponse):
        form_of(api).completion_in_events(b"".join([*api.begins, api.word, api.error]))


@ALL
def test_a_stream_without_an_end_is_no_completion(api: Api) -> None:
    with pytest.raises(UpstreamTruncated):
        form_of(api).completion_in_events(b"".join([*api.begins, api.word]))


@ALL
def test_an_error_of_the_proxy_has_the_api_s_own_shape(api: Api) -> None:
    api.error_of(form_of(api).error_document(BadRequest()))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (408, "timeout_error"),
        (413, "request_too_large"),
        (415, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
    ],
)
def test_a_status_has_the_type_that_anthropic_gives_it(status: int, kind: str) -> None:
    class Made(ProxyError):
        """An error of this status."""

    Made.status = status

    assert MESSAGES.error_of(MessagesAnswers().error_document(Made("It is so."))) == kind


@ALL
def test_a_stream_that_breaks_ends_as_the_api_s_streams_do(api: Api) -> None:
    form = form_of(api)

    frame = form.error_event(form.error_document(UpstreamReset()), "req-1")

    assert api.last_error(frame, b"") == "upstream_reset"


def test_a_failed_response_names_its_code() -> None:
    form = ResponsesAnswers()
    error = {"error": {"message": "m", "code": "context_length_exceeded"}}

    (event,) = data_events(form.error_event(error, "req-1"))

    assert event["response"].pop("error") == {"code": "context_length_exceeded", "message": "m"}
    TypeAdapter(ResponseStreamEvent).validate_python(event)


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"error": {"message": "no"}}', b"[]"])
def test_messages_tells_a_prompt_that_is_too_long_in_anthropic_s_words(body: bytes) -> None:
    told = json.loads(MessagesAnswers().too_long(body, 9_000, 8_192))

    assert told == {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: 9000 tokens > 8192 maximum",
        },
    }


@pytest.mark.parametrize(
    "body", [b"<html>", b"{}", b'{"error": {"message": "no", "code": 400}}', b"[]"]
)
def test_responses_tells_it_by_the_code_that_clients_look_for(body: bytes) -> None:
    told = json.loads(ResponsesAnswers().too_long(body, 9_000, 8_192))

    assert RESPONSES.error_of(told) == "context_length_exceeded"
    assert told["error"]["message"] in (
        "no",
        "The prompt is too long (9000 tokens > 8192 maximum).",
    )


def test_a_refusal_that_names_its_code_stays_as_it_is() -> None:
    body = b'{"error" : {"type": "x", "code": "context_length_exceeded"}}'

    assert ResponsesAnswers().too_long(body, 2, 1) is body
    assert ChatAnswers().too_long(b"any", 2, 1) == b"any"


@ALL
def test_an_answer_of_the_proxy_can_be_read_by_its_own_rules(api: Api) -> None:
    form = form_of(api)
    stream = form.streamed_reply(REPLY)
    tap = form.tap()

    assert form.completion_in_events(stream).text == "Compacted."
    assert form.completion_in_document(json.loads(form.whole_reply(REPLY))).text == "Compacted."
    assert tap.feed(stream) == stream
    assert (tap.is_complete, tap.is_inside_event) == (True, False)


def test_openai_s_own_types_accept_a_reply() -> None:
    form = ResponsesAnswers()

    Response.model_validate_json(form.whole_reply(REPLY))
    events: list[Any] = [
        TypeAdapter(ResponseStreamEvent).validate_python(event)
        for event in data_events(form.streamed_reply(REPLY))
    ]

    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].response.output_text == "Compacted."


@pytest.mark.parametrize("kind", [None, 5, "a\nb", "é"])
def test_an_event_without_a_plain_type_is_written_by_its_data_alone(kind: Any) -> None:
    """An upstream's answer that a client's call is taken out of may have any."""
    event = named_event({"type": kind})

    assert event.startswith(b"data: {")
    assert data_events(event) == [{"type": kind}]


def test_an_event_is_named_after_its_type() -> None:
    assert named_event({"type": "ping"}) == b'event: ping\ndata: {"type":"ping"}\n\n'
