"""A server that cuts prompts without a word: noticed by its count, answered again, remembered."""

import json
import signal
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from tests.journeys.replay.small_server import body_of, label_of, stages_of
from tests.journeys.replay.truncating_server import (
    TruncatingServer,
    guest_of_truncating,
    truncations,
)
from tests.journeys.summaries.talking import SYSTEM, prose, turns
from tests.support.command import ask, running_command
from tests.support.conversations import listening
from tests.support.fake_model import Line, fake_model
from tests.support.live import RawAnswer, chat_request, eventually
from tests.support.meeting import cut
from tests.support.summary_model import Question, Telling, failing, overflow
from tests.unit.chat.shapes import Fields, says, user

pytestmark = pytest.mark.anyio

NUM_CTX = 8_192
LEARNED = {"tokens": NUM_CTX, "source": "learned"}
TASK = "Please port the loader to Rust and keep its tests."
NOTED_TASK = "user: Please port loader Rust keep tests."
"""The task where there is no room for all of the user's words."""
WARNING = "the upstream truncated a prompt silently: its window is learned"
USAGE = {"include_usage": True}


def chat(name: int = 0, count: int = 10) -> list[Fields]:
    """A conversation of more than twice the window that begins with a task."""
    history = turns(count, 1_800, first=100 * name)
    return [SYSTEM, user(TASK), says("I will."), *history, user("And now?")]


def learned_from(server: TruncatingServer) -> Fields:
    """The window to be learned: what is left of whole messages shows only a part of it."""
    tokens = -(-server.reports[0] // 1_024) * 1_024 if server.drops_messages else server.num_ctx
    assert 3 / 4 * server.num_ctx < tokens <= server.num_ctx
    return {"tokens": tokens, "source": "learned"}


def usage_of(answer: RawAnswer) -> int:
    """The prompt's tokens by the usage that the client got."""
    lines = answer.body.decode().replace("data: ", "").splitlines()
    documents = [json.loads(line) for line in lines if line.startswith("{")]
    return int(next(it["usage"]["prompt_tokens"] for it in documents if it.get("usage")))


def said(answer: RawAnswer) -> str:
    """What the model answered, not streamed."""
    return str(json.loads(answer.body)["choices"][0]["message"]["content"])


@pytest.mark.parametrize(
    "server",
    [
        TruncatingServer(num_ctx=NUM_CTX),
        TruncatingServer(num_ctx=NUM_CTX, drops_messages=True),
        TruncatingServer(num_ctx=NUM_CTX, owner="somebody"),
        TruncatingServer(num_ctx=NUM_CTX, owner="somebody", keeps_half=False),
        TruncatingServer(num_ctx=NUM_CTX, owner="sglang", keeps_half=False),
    ],
    ids=["ollama", "ollama drops messages", "behind a gateway", "another", "sglang"],
)
async def test_a_whole_answer_is_asked_for_again_compacted(server: TruncatingServer) -> None:
    with listening() as heard:
        async with guest_of_truncating(server) as guest:
            answer = await guest.tell(chat())
            told = await guest.window()

            assert truncations(guest, "replayed") == 1
            assert truncations(guest, "relayed") == 0

    assert len(guest.calls) == 2
    assert said(answer) == "Well. 2"
    assert TASK not in server.seen(0)
    for words in (SYSTEM["content"], TASK, "And now?"):
        assert words in server.seen(1)
    assert server.reports[1] == guest.prompts[1] < NUM_CTX
    assert "replay" in stages_of(answer)
    assert told == learned_from(server)
    line = heard.lines("request")[0]
    assert (line["status"], line["replays"]) == (200, 1)


async def test_the_usage_is_the_servers_own() -> None:
    server = TruncatingServer(num_ctx=NUM_CTX)
    async with guest_of_truncating(server) as guest:
        whole = await guest.tell(chat(1))
        streamed = await guest.tell(chat(2), stream=True, stream_options=USAGE)

    assert usage_of(whole) == server.reports[1]
    assert usage_of(streamed) == server.reports[2]


@pytest.mark.parametrize("drops_messages", [False, True])
async def test_a_stream_is_relayed_and_the_next_request_fits(drops_messages: bool) -> None:
    server = TruncatingServer(num_ctx=NUM_CTX, drops_messages=drops_messages)
    with listening() as heard:
        async with guest_of_truncating(server) as guest:
            first = await guest.tell(chat(), stream=True, stream_options=USAGE)
            later = [*chat(), says("Well."), user("And then?")]
            second = await guest.tell(later, stream=True, stream_options=USAGE)

            assert truncations(guest, "relayed") == 1
            assert truncations(guest, "replayed") == 0

    assert guest.calls[0] == body_of(chat(), stream=True, stream_options=USAGE)
    assert label_of(first) == "none"
    assert len(guest.calls) == 2
    assert TASK in server.seen() or NOTED_TASK in server.seen()
    assert server.reports[1] == guest.prompts[1] < NUM_CTX
    assert "summary" in stages_of(second)
    line = heard.lines("request")[-1]
    assert {"tokens": line["window"], "source": line["window_source"]} == learned_from(server)


async def test_a_stream_without_usage_teaches_nothing() -> None:
    """As every server does that is not asked for the usage of a stream."""

    async def answer(_: Question, line: Line) -> None:
        await line.head(200, "content-type: text/event-stream", "transfer-encoding: chunked")
        await line.chunk(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
        await line.chunk(b"data: [DONE]\n\n")
        await line.chunk(b"")

    server = TruncatingServer(num_ctx=NUM_CTX, others={0: answer})
    async with guest_of_truncating(server) as guest:
        await guest.tell(chat(), stream=True)
        told = await guest.window()

    assert told is None


async def test_it_is_logged_once_for_each_model() -> None:
    server = TruncatingServer(num_ctx=NUM_CTX, names=("fake", "other"))
    huge = [user(prose(20_000, "it all"))]
    with listening() as heard:
        async with guest_of_truncating(server) as guest:
            for model in ("fake", "fake", "other", "other"):
                await guest.tell(huge, model=model)

            assert truncations(guest, "relayed") == 4

    lines = heard.lines(WARNING)
    assert [line["model"] for line in lines] == ["fake", "other"]
    assert lines[0]["window"] == NUM_CTX
    assert lines[0]["prompt_tokens"] == NUM_CTX // 2 + 2
    assert lines[0]["estimate"] > 20_000
    assert "About it all" not in heard.text


async def test_a_prompt_that_cannot_be_made_smaller_gets_its_answer_at_once() -> None:
    huge = [user(prose(20_000, "it all"))]
    server = TruncatingServer(num_ctx=NUM_CTX)
    async with guest_of_truncating(server) as guest:
        answer = await guest.tell(huge)

        assert guest.replays("exhausted") == 0

    assert guest.calls == [body_of(huge)]
    assert said(answer) == "Well. 1"
    assert label_of(answer) == "none"


async def test_a_truncated_prompt_does_not_spoil_the_count() -> None:
    server = TruncatingServer(num_ctx=NUM_CTX)
    question = [user(prose(20_000, "it all"))]
    async with guest_of_truncating(server) as guest:
        answers = [await guest.tell(question) for _ in range(4)]

    estimates = {answer.headers["x-chat-proxy-tokens-before"] for answer in answers}
    assert len(estimates) == 1


async def test_a_window_that_is_known_and_larger_is_lowered() -> None:
    server = TruncatingServer(num_ctx=NUM_CTX)
    async with guest_of_truncating(server, window=100_000) as guest:
        await guest.tell(chat())
        told = await guest.window()

    assert told == LEARNED


async def test_a_window_that_is_known_and_smaller_stays() -> None:
    server = TruncatingServer(num_ctx=NUM_CTX)
    with listening() as heard:
        async with guest_of_truncating(server, window=4_000) as guest:
            await guest.tell([user(prose(20_000, "it all"))])
            told = await guest.window()

    assert told == {"tokens": 4_000, "source": "setting"}
    assert heard.lines(WARNING) == []


# When the second try brings no answer


async def reset(_: Question, line: Line) -> None:
    """Break the connection."""
    cut(line)


async def silent(_: Question, line: Line) -> None:
    """Say nothing."""
    await line.until_closed()


async def rubbish(_: Question, line: Line) -> None:
    """Answer 200 with something that is no completion."""
    await line.head(200, "content-type: application/json", "content-length: 2")
    await line.send(b"[]")


async def refused(_: Question, line: Line) -> None:
    """Refuse it as too long after all, whatever its length."""
    body = json.dumps(overflow(64)).encode()
    await line.head(400, "content-type: application/json", f"content-length: {len(body)}")
    await line.send(body)


@pytest.mark.parametrize(
    "failure",
    [failing(500), failing(429), failing(401), reset, silent, rubbish],
    ids=["500", "429", "401", "reset", "silent", "rubbish"],
)
async def test_a_second_try_that_fails_leaves_the_first_answer(failure: Telling) -> None:
    """A connection that is reset is tried once more by itself, if it was used before."""
    server = TruncatingServer(num_ctx=NUM_CTX, others={1: failure, 2: failure})
    patience = {"first_byte_timeout_seconds": 0.5}
    with listening() as heard:
        async with guest_of_truncating(server, upstream=patience) as guest:
            answer = await guest.tell(chat())
            server.others.clear()
            after = await guest.tell([user("Hi")])

            assert truncations(guest, "replayed") == truncations(guest, "relayed") == 1

    assert (answer.status, said(answer)) == (200, "Well. 1")
    assert usage_of(answer) == NUM_CTX // 2 + 2
    assert label_of(answer) == "none"
    before, after_it = (answer.headers[f"x-chat-proxy-tokens-{it}"] for it in ("before", "after"))
    assert before == after_it
    assert "x-chat-proxy-stages" not in answer.headers
    assert "x-chat-proxy-error" not in answer.headers
    assert said(after) == f"Well. {len(guest.calls)}"
    line = heard.lines("request")[0]
    assert (line["status"], line["code"], line["replays"]) == (200, "", 1)
    assert line["prompt_tokens"] == NUM_CTX // 2 + 2


async def test_tries_that_are_refused_until_none_is_left_leave_the_first_answer() -> None:
    server = TruncatingServer(num_ctx=NUM_CTX, others={1: refused, 2: refused, 3: refused})
    async with guest_of_truncating(server) as guest:
        answer = await guest.tell(chat())

    assert said(answer) == "Well. 1"
    assert 2 <= len(guest.calls) <= 3
    assert all(new < old for old, new in pairwise(guest.prompts))


async def test_a_second_prompt_that_is_truncated_too_is_made_smaller_once_more() -> None:
    class Shrinking(TruncatingServer):
        def left_of(self, whole: Question) -> int:
            self.num_ctx = 32_768 if not self.chats else 2_048
            return super().left_of(whole)

    server = Shrinking()
    async with guest_of_truncating(server) as guest:
        answer = await guest.tell(chat(count=40))
        told = await guest.window()

    assert said(answer) == "Well. 3"
    assert server.reports[2] == guest.prompts[2] < 2_048 < guest.prompts[1]
    assert told == {"tokens": 2_048, "source": "learned"}


async def test_a_client_that_leaves_ends_the_second_try() -> None:
    ended: list[Question] = []

    async def silent_to_the_end(question: Question, line: Line) -> None:
        await silent(question, line)
        ended.append(question)

    server = TruncatingServer(num_ctx=NUM_CTX, others={1: silent_to_the_end})
    async with guest_of_truncating(server) as guest:
        await guest.client.send(chat_request(body_of(chat())))
        await eventually(lambda: len(server.chats) == 2)
        assert not ended
        guest.client.leave()

        await eventually(lambda: ended)
        await eventually(lambda: guest.answered(499, "client_closed_request") == 1)


# Without replays


@pytest.mark.parametrize("headers", [(), ("x-chat-proxy-mode: observe",)])
async def test_without_replays_the_window_is_learned_for_later(headers: tuple[str, ...]) -> None:
    server = TruncatingServer(num_ctx=NUM_CTX)
    off = {"enabled": bool(headers)}
    async with guest_of_truncating(server, replay=off) as guest:
        answer = await guest.tell(chat(), *headers)
        told = await guest.window()

    assert said(answer) == "Well. 1"
    assert guest.calls == [body_of(chat())]
    assert told == LEARNED


async def test_a_proxy_that_is_off_looks_at_nothing() -> None:
    server = TruncatingServer(num_ctx=NUM_CTX)
    async with guest_of_truncating(server) as guest:
        await guest.tell(chat(), "x-chat-proxy-mode: off")
        told = await guest.window()

    assert told is None
    assert len(guest.calls) == 1


# What is remembered


def lessons_in(file: Path) -> int:
    """The windows in a store's file."""
    if not file.exists():
        return 0
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute("select count(*) from rows where kind = 'window'")
        return int(rows.fetchone()[0])


async def test_a_window_is_known_after_kill_9(tmp_path: Path) -> None:
    file = tmp_path / "chat-proxy.db"
    server = TruncatingServer(num_ctx=NUM_CTX)
    body = body_of(chat(), stream=True, stream_options=USAGE)
    async with fake_model(server) as model:
        chosen = {"UPSTREAM_BASE_URL": model.url, "STORE_URL": f"sqlite:///{file}"}
        async with running_command("serve", **chosen) as command:
            await post(await command.url(), "completions", body)
            await eventually(lambda: lessons_in(file))
            command.process.send_signal(signal.SIGKILL)
            await command.ended()
        async with running_command("serve", **chosen) as command:
            told = (await post(await command.url(), "explain", body)).json()["window"]
            await post(await command.url(), "completions", body)

    assert told == LEARNED
    assert len(server.chats) == 2
    assert TASK in server.seen() or NOTED_TASK in server.seen()


async def post(url: str, what: str, body: bytes) -> httpx.Response:
    """Send a chat to a proxy of its own process."""
    headers = {"content-type": "application/json"}
    return await ask(f"{url}/v1/chat/{what}", "POST", content=body, headers=headers)
