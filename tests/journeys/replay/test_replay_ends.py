"""A replay comes to an end: at most two, each smaller, and then the upstream's own words."""

import asyncio
import json
from itertools import pairwise

import pytest

from tests.journeys.counting.pictures import png
from tests.journeys.replay.small_server import (
    Refusal,
    Refusing,
    SmallServer,
    always,
    at_least,
    body_of,
    guest_of,
    is_answer,
    label_of,
    over,
    visiting,
    vllm,
)
from tests.journeys.summaries.talking import SYSTEM, long_chat, prose
from tests.support.conversations import listening
from tests.support.fake_model import fake_model
from tests.support.live import chat_request, eventually, raw_client
from tests.support.summary_model import Question, after, good, once_open
from tests.unit.chat.shapes import image, text, user

pytestmark = pytest.mark.anyio

ABSURD = vllm(
    "This model's maximum context length is 3 tokens. However, your request has 8 input tokens. "
    "Please reduce the length of the input messages. (parameter=input_tokens, value=8)"
)
NO_NUMBER = json.dumps(
    {"error": {"message": "Your input exceeds the context window of this model.", "code": None}}
).encode()


@pytest.mark.parametrize("stream", [False, True])
async def test_one_message_larger_than_the_window_gets_the_upstreams_own_error(
    stream: bool,
) -> None:
    """BUGS 33."""
    body = body_of([SYSTEM, user(prose(6_000, "it all"))], stream=stream)
    async with visiting(over(4_000)) as guest:
        answer = await guest.send(body)

    assert (answer.status, answer.body) == (400, at_least(4_000))
    assert answer.headers["content-type"] == "application/json"
    assert guest.calls[0] == body
    assert len(guest.calls) == len(set(guest.calls)) <= 3
    assert guest.replays("exhausted") == 1


async def test_an_error_event_that_nothing_helps_against_becomes_an_answer_of_its_own() -> None:
    body = body_of([user(prose(6_000, "it all"))], stream=True)
    async with visiting(over(4_000, in_band=True)) as guest:
        answer = await guest.send(body)

    assert (answer.status, answer.body) == (400, at_least(4_000))
    assert answer.headers["content-type"] == "application/json"
    assert guest.calls == [body]


@pytest.mark.parametrize(
    "refusal",
    [ABSURD, NO_NUMBER, at_least(64), at_least(90_000_000)],
    ids=["absurd", "no number", "tiny", "huge"],
)
@pytest.mark.parametrize("chat", ["short", "long", "pictures"])
async def test_whoever_refuses_everything_is_asked_three_times_at_most(
    refusal: bytes, chat: str
) -> None:
    """BUGS 8, 33."""
    pictures = user([text("What is this?"), *(image(png(512, 512 + n)) for n in range(5))])
    chats = {"short": [user("Hi")], "long": long_chat(), "pictures": [*long_chat(), pictures]}
    async with visiting(always(refusal)) as guest:
        answer = await guest.tell(chats[chat], max_tokens=100)

    assert (answer.status, answer.body) == (400, refusal)
    assert 1 <= len(guest.calls) <= 3
    assert all(new < old for old, new in pairwise(guest.prompts))
    assert guest.replays("sent") == len(guest.calls) - 1
    assert guest.replays("exhausted") == 1


async def test_two_replays_that_fail_are_told_by_the_last_refusal() -> None:
    refused: list[bytes] = []

    def noting(question: Question) -> Refusal | None:
        if question.is_summary:
            return None
        refused.append(NO_NUMBER.replace(b"model.", b"model (%d)." % len(refused)))
        return Refusal(refused[-1])

    with listening() as heard:
        async with visiting(noting) as guest:
            answer = await guest.tell(long_chat())

    assert len(guest.calls) == len(refused) == 3
    assert (answer.status, answer.body) == (400, refused[-1])
    line = heard.lines("request")[-1]
    assert (line["status"], line["replays"]) == (400, 2)
    assert guest.replays("sent") == 2
    assert guest.replays("exhausted") == 1


async def test_a_long_chat_with_an_absurd_limit_loses_nothing_for_later_requests() -> None:
    """BUGS 8: a window of three tokens is not believed."""
    chat = long_chat()
    async with visiting(always(ABSURD)) as guest:
        await guest.tell(chat)
        guest.server.refusing = lambda _: None
        answer = await guest.tell(chat)

    assert is_answer(answer)
    assert guest.calls[-1] == body_of(chat)
    assert label_of(answer) == "none"


async def test_an_absurd_refusal_is_not_taken_for_silent_truncation() -> None:
    with listening() as heard:
        async with visiting(always(ABSURD)) as guest:
            await guest.tell(long_chat())

    assert len(guest.calls) > 1
    assert "it may cut prompts silently" not in heard.text


async def test_a_mistake_of_ours_ends_in_the_upstreams_own_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async with visiting(over(4_000)) as guest:
        monkeypatch.setattr(guest.proxy.services.sizing.learned_windows, "learn", fail)
        answer = await guest.tell(long_chat())

    assert (answer.status, answer.body) == (400, at_least(4_000))
    assert len(guest.calls) == 1


async def test_an_upstream_that_dies_on_the_replay_is_an_error_of_ours() -> None:
    def judge(question: Question) -> Refusal | None:
        if question.is_summary:
            return None
        return Refusal(at_least(4_000)) if question.tokens >= 4_000 else Refusal(b"{", 503)

    async with visiting(judge) as guest:
        answer = await guest.tell(long_chat())

    assert (answer.status, answer.body) == (503, b"{")
    assert len(guest.calls) == 2


async def test_a_summary_that_cannot_be_written_ends_in_a_fold_without_a_model() -> None:
    def judge(question: Question) -> Refusal | None:
        if question.is_summary:
            return Refusal(b'{"error":{"message":"no"}}', 500)
        return Refusal(at_least(4_000)) if question.tokens >= 4_000 else None

    async with visiting(judge) as guest:
        answer = await guest.tell(long_chat())

    assert is_answer(answer)
    assert label_of(answer) == "failed-open"
    assert len(guest.calls) == 2


async def test_a_client_who_leaves_during_the_replay_takes_it_along() -> None:
    gate = asyncio.Event()
    server = SmallServer(once_open(gate), refusing=over(4_000))
    async with fake_model(server) as model, guest_of(server, model) as guest:
        async with raw_client(guest.proxy) as client:
            await client.send(chat_request(body_of(long_chat())))
            await eventually(lambda: server.summaries)
        await asyncio.sleep(0.3)
        gate.set()
        await asyncio.sleep(0.3)

    assert len(guest.calls) == 1


# Streams that are kept alive while a summary is written


WAITING = {"keep_alive_seconds": 0.05, "wait": "trigger"}


def chats_over(window: int) -> Refusing:
    """Refuse chats over the window, but no question for a summary."""
    return lambda question: None if question.is_summary else over(window)(question)


async def test_a_stream_that_was_kept_alive_is_answered_on_the_replay() -> None:
    server = SmallServer(after(0.3, good), refusing=chats_over(800))
    async with (
        fake_model(server) as model,
        guest_of(server, model, window=8_000, summary=WAITING) as guest,
    ):
        answer = await guest.tell(long_chat(), stream=True)

    assert answer.body.startswith(b": compacting\n\n")
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert is_answer(answer)
    assert 2 <= len(guest.calls) <= 3


async def test_a_stream_is_kept_alive_while_the_replay_waits_for_a_summary() -> None:
    server = SmallServer(after(0.3, good), refusing=over(4_000))
    alive = {"keep_alive_seconds": 0.05}
    async with fake_model(server) as model, guest_of(server, model, summary=alive) as guest:
        answer = await guest.tell(long_chat(), stream=True)

    assert answer.body.startswith(b": compacting\n\n: compacting\n\n")
    assert is_answer(answer)
    assert len(guest.calls) == 2


@pytest.mark.parametrize("in_band", [False, True])
async def test_a_stream_that_was_kept_alive_ends_with_an_error_when_nothing_helps(
    in_band: bool,
) -> None:
    def judge(question: Question) -> Refusal | None:
        return None if question.is_summary else Refusal(at_least(64), in_band=in_band)

    server = SmallServer(after(0.3, good), refusing=judge)
    with listening() as heard:
        async with (
            fake_model(server) as model,
            guest_of(server, model, window=8_000, summary=WAITING) as guest,
        ):
            answer = await guest.tell(long_chat(), stream=True)

    assert answer.status == 200
    assert answer.body.startswith(b": compacting\n\n")
    frames = [line for line in answer.body.split(b"\n\n") if line and not line.startswith(b":")]
    assert json.loads(frames[0].removeprefix(b"data: ")) == json.loads(at_least(64))
    assert frames[1:] in ([], [b"data: [DONE]"])
    assert len(guest.calls) <= 3
    assert heard.lines("request")[-1]["code"] == "upstream_stream_error"


async def test_a_page_of_html_ends_a_stream_that_was_kept_alive_with_an_error_too() -> None:
    def judge(question: Question) -> Refusal | None:
        html = ("content-type: text/html",)
        return None if question.is_summary else Refusal(b"<html>too large</html>", 413, html)

    server = SmallServer(after(0.3, good), refusing=judge)
    async with (
        fake_model(server) as model,
        guest_of(server, model, window=8_000, summary=WAITING) as guest,
    ):
        answer = await guest.tell(long_chat(), stream=True)

    assert answer.status == 200
    assert b'data: {"error"' in answer.body
    assert len(guest.calls) == 1
