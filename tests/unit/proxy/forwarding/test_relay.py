"""Relaying: what passes unseen, and how an answer is judged."""

import asyncio
import json
from typing import Any

import pytest

from chat_proxy.errors import UpstreamInvalidResponse
from chat_proxy.proxy.forwarding.refusals import (
    FIRST_EVENT_BYTES,
    is_unfinished_refusal,
    refusal_in,
)
from chat_proxy.wires.chat_completions import ChatAnswers
from chat_proxy.wires.usage import PARSED_BYTES, Usage
from tests.support.fake_model import COMPLETION, Line, Received, fake_model
from tests.support.live import RawAnswer, eventually, raw_client, running_proxy
from tests.support.meeting import cut

REQUEST = b"POST /v1/embeddings HTTP/1.1\r\nhost: p\r\ncontent-length: 2\r\n\r\n{}"


async def forwarded(behaviour: Any, **sections: Any) -> RawAnswer:
    """Return the answer to a request that is forwarded unseen."""
    async with (
        fake_model(behaviour) as model,
        running_proxy(model.url, **sections) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(REQUEST)
        return await client.answer()


async def cut_short(behaviour: Any, **sections: Any) -> bytes:
    """Return everything that came of an answer whose connection was broken."""
    async with (
        fake_model(behaviour) as model,
        running_proxy(model.url, **sections) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(REQUEST)
        everything = await client.rest()
        await eventually(lambda: model.open_connections == 0)
        return everything


class InPieces:
    """Answers in chunks, then ends, resets or stays."""

    def __init__(self, *pieces: bytes, then: str = "end") -> None:
        self._pieces = pieces
        self._then = then

    async def __call__(self, _: Received, line: Line) -> None:
        await line.head(200, "content-type: audio/x", "transfer-encoding: chunked")
        for piece in self._pieces:
            await line.chunk(piece)
            await asyncio.sleep(0.01)
        if self._then == "end":
            await line.chunk(b"")
        elif self._then == "reset":
            cut(line)
        else:
            await line.until_closed()


@pytest.mark.anyio
async def test_other_answers_pass_unseen() -> None:
    answer = await forwarded(InPieces(b"\x00\xff", b"data: [DONE]\n\n", b"more"))

    assert answer.body == b"\x00\xffdata: [DONE]\n\nmore"
    assert answer.headers["content-type"] == "audio/x"


@pytest.mark.anyio
@pytest.mark.parametrize("body", [b"", b"not json"])
async def test_an_answer_in_one_piece_keeps_its_length(body: bytes) -> None:
    async def behave(_: Received, line: Line) -> None:
        await line.send(b"HTTP/1.1 201 X\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    answer = await forwarded(behave)

    assert (answer.status, answer.body) == (201, body)
    assert answer.headers["content-length"] == str(len(body))


@pytest.mark.anyio
async def test_an_answer_that_may_have_no_body_has_no_length() -> None:
    async def behave(_: Received, line: Line) -> None:
        await line.send(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with (
        fake_model(behave) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(REQUEST)
        head = (await client.reader.readuntil(b"\r\n\r\n")).lower()

    assert head.startswith(b"http/1.1 204")
    assert b"content-length" not in head
    assert b"transfer-encoding" not in head


@pytest.mark.anyio
async def test_a_broken_answer_breaks_the_client_s_connection() -> None:
    """B7: nobody here knows what a whole answer is."""
    everything = await cut_short(InPieces(b"half", then="reset"))

    assert everything.endswith(b"4\r\nhalf\r\n")


@pytest.mark.anyio
async def test_silence_breaks_the_client_s_connection() -> None:
    """B13."""
    limits = {"idle_timeout_seconds": 0.2}
    everything = await cut_short(InPieces(b"half", then="stay"), upstream=limits)

    assert everything.endswith(b"4\r\nhalf\r\n")


@pytest.mark.anyio
async def test_an_answer_broken_at_once_is_an_error() -> None:
    """B7."""
    answer = await forwarded(InPieces(then="reset"))

    assert (answer.status, answer.error["code"]) == (502, "upstream_reset")


@pytest.mark.anyio
async def test_a_client_that_stops_reading_is_let_go_of() -> None:
    """A20."""

    async def pour(_: Received, line: Line) -> None:
        await line.head(200, "transfer-encoding: chunked")
        while True:
            await line.chunk(b"x" * 65_536)

    async with (
        fake_model(pour) as model,
        running_proxy(model.url, limits={"client_stall_seconds": 0.2}) as proxy,
        raw_client(proxy) as client,
    ):
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await client.send(REQUEST)
        await eventually(lambda: model.connections == 1)

        await eventually(lambda: model.open_connections == 0)


@pytest.mark.parametrize(
    ("beginning", "expected"),
    [
        (b'data: {"error":{"code":404}}\n', (404, b'{"error":{"code":404}}')),
        (b'\n\ndata:{"error":{"code":"503"}}\r\n\r\n', (503, b'{"error":{"code":"503"}}')),
        (b'data: { "error": "text"}\n\n', (500, b'{ "error": "text"}')),
        (b'data: {"error":{"code":1e3}}\n', (500, b'{"error":{"code":1e3}}')),
        (b'data: {"error":{"code":{}}}\n', (500, b'{"error":{"code":{}}}')),
        (b'data: {"error":null}\n', (500, b'{"error":null}')),
        (b'data: {"error"}\n', None),
        (b'data: {"error":1}', None),
        (b'data: {"id":1,"error":null}\n\n', None),
        (b'event: error\ndata: {"error":1}\n\n', (500, b'{"error":1}')),
        (b"", None),
    ],
)
def test_a_refusal_is_read_from_a_stream_s_first_event(
    beginning: bytes, expected: tuple[int, bytes] | None
) -> None:
    """B11."""
    assert refusal_in(beginning) == expected


@pytest.mark.parametrize(
    ("beginning", "waits"),
    [
        (b'data: {"error"', True),
        (b'data: {"error": {"message": "x', True),
        (b'data: {"error": 1}\n', False),
        (b'data: {"id"', False),
        (b'data: {"error": "' + b"x" * FIRST_EVENT_BYTES, False),
    ],
)
def test_only_the_rest_of_a_refusal_is_waited_for(beginning: bytes, waits: bool) -> None:
    """B11, B14."""
    assert is_unfinished_refusal(beginning) is waits


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(COMPLETION).encode(),
        b" \n" + json.dumps(COMPLETION).encode() + b"\r\n",
        json.dumps({**COMPLETION, "half": "\ud83d", "logprob": float("-inf")}).encode(),
    ],
)
def test_a_completion_tells_its_usage(body: bytes) -> None:
    """A4: servers write half an emoji too, and numbers that JSON does not have."""
    assert ChatAnswers().usage_of_answer(body) == Usage(11, 6, 0)


def test_a_large_completion_is_judged_by_its_ends() -> None:
    assert ChatAnswers().usage_of_answer(b'{"x":' + b" " * PARSED_BYTES + b"rubbish}") is None
    with pytest.raises(UpstreamInvalidResponse):
        ChatAnswers().usage_of_answer(b'{"x":' + b" " * PARSED_BYTES)


@pytest.mark.parametrize("body", [b"{" * 3000 + b"}" * 3000, b'{"a":' * 9999 + b"1" + b"}" * 9999])
def test_what_cannot_be_parsed_is_no_completion(body: bytes) -> None:
    with pytest.raises(UpstreamInvalidResponse):
        ChatAnswers().usage_of_answer(body)
