"""Rows A11, A13, A23 and A25: how a body is announced, and requests that come in a row."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.faults.client.conftest import Desk
from tests.faults.faulty import chats, is_error
from tests.support.clock import within
from tests.support.fake_model import Line, Received, answer_json, fake_model, on_chat, polite
from tests.support.live import chat_body, chat_request, raw_client, running_proxy

pytestmark = pytest.mark.anyio

MAX_BODY = 100_000
CHUNKED = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
EVIL = "origin: https://evil.example"


@pytest.fixture(scope="module")
async def small() -> AsyncIterator[Desk]:
    """A proxy that takes small bodies only."""
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, limits={"max_body_bytes": MAX_BODY}) as proxy,
    ):
        yield Desk(model, proxy)


async def test_a11_a_body_announced_too_large_is_refused_before_it_is_read(small: Desk) -> None:
    head = chat_request(b"x" * (MAX_BODY + 1))[: -MAX_BODY - 1]

    answer, received = await small(head)

    assert is_error(answer, 413, "request_too_large")
    assert answer.headers["connection"] == "close"
    assert received == []


async def test_a11_a_body_of_unknown_length_is_refused_at_the_first_byte_too_many(
    small: Desk,
) -> None:
    small.model.requests.clear()
    async with within(10), raw_client(small.proxy) as client:
        piece = b"x" * 1_000
        await client.send(CHUNKED)
        for _ in range(MAX_BODY // len(piece)):
            await client.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        await client.send(b"1\r\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.reader.read(1), 0.1)
        await client.send(b"x\r\n")
        answer = await client.answer()
        rest = await client.rest()

    assert is_error(answer, 413, "request_too_large")
    assert answer.headers["connection"] == "close"
    assert rest == b""
    assert chats(small.model) == []


async def test_a11_a_body_at_the_limit_passes(small: Desk) -> None:
    body = chat_body(padding="x" * (MAX_BODY - len(chat_body(padding=""))))

    answer, received = await small(chat_request(body))

    assert len(body) == MAX_BODY
    assert answer.status == 200
    assert [r.body for r in received] == [body]


def typed(content_type: str, *headers: str) -> bytes:
    """A request of another content type, or of none."""
    line = f"content-type: {content_type}\r\n" if content_type else ""
    request = chat_request(chat_body(), *headers)
    return request.replace(b"content-type: application/json\r\n", line.encode())


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a13_curls_habits_are_accepted(content_type: str, ask: Desk) -> None:
    answer, received = await ask(typed(content_type))

    assert answer.status == 200
    assert len(received) == 1


@pytest.mark.parametrize(
    "request_bytes",
    [
        typed("text/plain", EVIL),
        typed("Text/Plain;charset=utf-8", "origin: null"),
        typed("multipart/form-data; boundary=x", EVIL),
        typed("", EVIL),
    ],
    ids=["text", "null", "multipart", "none"],
)
async def test_a13_what_a_foreign_page_can_send_is_refused(request_bytes: bytes, ask: Desk) -> None:
    answer, received = await ask(request_bytes)

    assert is_error(answer, 415, "unsupported_media_type")
    assert received == []


async def test_a13_a_page_that_sends_json_had_to_ask_its_browser_first(ask: Desk) -> None:
    answer, _ = await ask(typed("application/json", EVIL))

    assert answer.status == 200


async def test_a23_requests_in_a_row_are_answered_in_order() -> None:
    """The first one takes longest, so that order is not luck."""

    async def count_down(received: Received, line: Line) -> None:
        number = int(received.body.rpartition(b'"user": "')[2].partition(b'"')[0])
        await asyncio.sleep(0.06 - number * 0.02)
        await answer_json(line, {"number": number})

    async with (
        within(10),
        fake_model(on_chat(count_down)) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(b"".join(chat_request(chat_body(user=str(n))) for n in range(3)))
        bodies = [(await client.answer()).body for _ in range(3)]

    assert bodies == [b'{"number": 0}', b'{"number": 1}', b'{"number": 2}']


async def test_a23_a_client_that_asks_first_is_told_to_go_on(ask: Desk) -> None:
    body = chat_body()
    head = chat_request(body, "expect: 100-continue")[: -len(body)]
    ask.model.requests.clear()
    async with within(10), raw_client(ask.proxy) as client:
        await client.send(head)
        interim = await client.reader.readuntil(b"\r\n\r\n")
        await client.send(body)
        answer = await client.answer()

    assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer.status == 200
    assert [r.body for r in chats(ask.model)] == [body]


async def test_a23_another_expectation_fails(ask: Desk) -> None:
    answer, received = await ask(chat_request(chat_body(), "expect: 42"))

    assert is_error(answer, 417, "expectation_failed")
    assert received == []


async def sent_in_chunks(desk: Desk, body: bytes, size: int, extension: bytes = b"") -> int:
    """Return the status of the answer to a body in chunks of this size."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = [b"%x%s\r\n%s\r\n" % (len(piece), extension, piece) for piece in pieces]
    async with raw_client(desk.proxy) as client:
        client.writer.write(CHUNKED + b"".join([*chunks, b"0\r\n\r\n"]))
        return (await client.answer()).status


def long_chat(size: int) -> bytes:
    return chat_body(messages=[{"role": "user", "content": "x" * size}])


@pytest.mark.parametrize(
    ("body_bytes", "size", "extension"),
    [(90_000, 1, b""), (90_000, 50, b";a=" + b"b" * 1_000)],
    ids=["tiny", "extensions"],
)
async def test_a25_more_framing_than_body_is_refused(
    small: Desk, body_bytes: int, size: int, extension: bytes
) -> None:
    """Each chunk costs a call: 20 MB of such chunks took half a second of the loop."""
    assert await sent_in_chunks(small, long_chat(body_bytes), size, extension) == 400


@pytest.mark.parametrize(("body_bytes", "size"), [(5_000, 1), (90_000, 20), (90_000, 8)])
async def test_a25_small_chunks_of_a_small_body_are_accepted(
    small: Desk, body_bytes: int, size: int
) -> None:
    """Some clients write JSON piece by piece."""
    assert await sent_in_chunks(small, long_chat(body_bytes), size) == 200
