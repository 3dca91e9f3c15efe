"""What a connection accepts: sizes, expectations and requests that come in a row."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from chat_proxy.http.server.limits import ConnectionLimits
from tests.support.clock import BACKEND, within
from tests.support.fake_model import (
    DONE,
    Behaviour,
    FakeModel,
    Line,
    Received,
    begin_stream,
    delta,
    fake_model,
    on_chat,
    polite,
)
from tests.support.live import (
    Proxy,
    RawAnswer,
    RawClient,
    chat_body,
    chat_request,
    eventually,
    http_client,
    raw_client,
    running_proxy,
)

pytestmark = pytest.mark.anyio

KIBIBYTE = 1024
MEBIBYTE = 1024 * 1024
MAX_BODY = 100_000
CHUNKED = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


def assert_refused(answer: RawAnswer, status: int, code: str) -> None:
    assert answer.status == status
    assert answer.error["code"] == answer.headers["x-chat-proxy-error"] == code
    assert answer.headers["x-chat-proxy-compaction"] == "none"
    assert answer.headers["connection"] == "close"


@dataclass
class Scene:
    """A model and a proxy for all tests here, one after another: starting them takes time."""

    model: FakeModel
    proxy: Proxy

    @property
    def chats(self) -> list[Received]:
        return [r for r in self.model.requests if r.method == "POST"]

    @asynccontextmanager
    async def client(self, behaviour: Behaviour = polite) -> AsyncIterator[RawClient]:
        """A connection, in front of a model that behaves so and has seen nothing yet."""
        self.model.behaviour = behaviour
        self.model.requests.clear()
        async with within(5), raw_client(self.proxy) as client:
            yield client

    async def ask(self, request: bytes) -> tuple[RawAnswer, bytes]:
        """Send one raw request; return the answer and what came behind it."""
        async with self.client() as client:
            await client.send(request)
            answer = await client.answer()
            rest = await client.rest() if answer.headers.get("connection") == "close" else b""
            return answer, rest


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return BACKEND


@pytest.fixture(scope="module")
async def scene() -> AsyncIterator[Scene]:
    limits = {
        "max_body_bytes": MAX_BODY,
        "max_header_bytes": 4096,
        "max_header_line_bytes": 1024,
        "max_headers": 50,
    }
    async with fake_model(polite) as model, running_proxy(model.url, limits=limits) as proxy:
        yield Scene(model, proxy)


# Bodies


async def test_a_body_announced_too_large_is_refused_before_it_is_read(scene: Scene) -> None:
    """A11."""
    body = b"x" * (MAX_BODY + 1)
    head = chat_request(body)[: -len(body)]

    answer, rest = await scene.ask(head)

    assert_refused(answer, 413, "request_too_large")
    assert rest == b""
    assert scene.chats == []


async def test_a_body_at_the_limit_passes(scene: Scene) -> None:
    """A11."""
    body = chat_body(padding="x" * (MAX_BODY - len(chat_body(padding=""))))

    answer, _ = await scene.ask(chat_request(body))

    assert len(body) == MAX_BODY
    assert answer.status == 200
    assert len(scene.chats) == 1


@pytest.mark.parametrize("chunk", [MAX_BODY + 1, 7])
async def test_a_chunked_body_is_refused_at_the_first_byte_too_many(
    chunk: int, scene: Scene
) -> None:
    """A11: in one packet or in many."""
    piece = b"%x\r\n%s\r\n" % (chunk, b"x" * chunk)
    pieces = piece * (MAX_BODY // chunk + 1)

    answer, rest = await scene.ask(CHUNKED + pieces + b"0\r\n\r\n")

    assert_refused(answer, 413, "request_too_large")
    assert rest == b""
    assert scene.chats == []


@pytest.mark.parametrize("chunked", [False, True])
async def test_the_refusal_arrives_while_the_client_is_still_sending(
    chunked: bool, scene: Scene
) -> None:
    """A11: an ordinary client that first sends everything and then listens."""
    size = 24 * MEBIBYTE
    async with scene.client() as client:
        framing = b"transfer-encoding: chunked" if chunked else b"content-length: %d" % size
        await client.send(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n" + framing + b"\r\n\r\n"
        )
        piece = b"x" * 64 * KIBIBYTE
        for _ in range(size // len(piece)):
            await client.send(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
        answer = await client.answer()
        rest = await client.rest()

    assert_refused(answer, 413, "request_too_large")
    assert rest == b""
    assert scene.chats == []


async def test_httpx_reads_the_refusal_of_a_large_upload(scene: Scene) -> None:
    """A11."""
    async with http_client(scene.proxy) as client:
        answer = await client.post("/v1/chat/completions", content=b"x" * 40 * MEBIBYTE)

    assert answer.status_code == 413


async def test_an_answer_to_an_unread_body_closes_the_connection(scene: Scene) -> None:
    """A11: the rest of the body is never taken for a request."""
    async with scene.client() as client:
        await client.send(b"POST /nowhere HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n")
        answer = await client.answer()
        await client.send(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
        rest = await client.rest()

    assert answer.status == 404
    assert answer.headers["connection"] == "close"
    assert rest == b""
    assert scene.model.requests == []


# Heads


@pytest.mark.parametrize(
    "lines",
    [
        [f"x-{n}: y" for n in range(60)],
        [f"x-{n}: {'y' * 900}" for n in range(5)],
        ["x: " + "y" * 1100],
        ["x" * 1100 + ": y"],
    ],
    ids=["count", "block", "value", "name"],
)
async def test_a_head_that_is_too_large_is_refused(lines: list[str], scene: Scene) -> None:
    """A11's kin: the header block, its lines, and their number."""
    answer, rest = await scene.ask(chat_request(chat_body(), *lines))

    assert_refused(answer, 431, "headers_too_large")
    assert rest == b""
    assert scene.chats == []


@pytest.mark.parametrize("fault", ["expect: miracles", "a: b\r\nno header", "transfer-encoding: x"])
async def test_a_head_that_is_too_large_is_refused_for_that(fault: str, scene: Scene) -> None:
    """Whatever else is wrong behind it: headers are measured when the parser stops."""
    answer, _ = await scene.ask(chat_request(chat_body(), "x: " + "y" * 1100, fault))

    assert_refused(answer, 431, "headers_too_large")


@pytest.mark.parametrize("lines", [["x: " + "y" * 1100], [f"x-{n}: {'y' * 900}" for n in range(5)]])
async def test_a_head_is_refused_before_it_ends(lines: list[str], scene: Scene) -> None:
    unfinished = "\r\n".join(["GET /health HTTP/1.1", "host: x", *lines, "x-next: "])

    answer, _ = await scene.ask(unfinished.encode())

    assert_refused(answer, 431, "headers_too_large")


def test_what_is_harmless_breaks_no_limit() -> None:
    """The shortest headers count for more than their bytes."""
    limits = ConnectionLimits(1, 1, 4096, 1024, 50, 1, 1)
    headers = limits.harmless_bytes // len("a:\r\n")

    assert headers * (len("a") + len("") + 4) <= limits.max_header_line_bytes


async def test_a_line_that_came_in_pieces_does_not_count_for_the_next_request(scene: Scene) -> None:
    async with scene.client() as client:
        await client.send(b"GET /health HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 700)
        await asyncio.sleep(0.02)
        await client.send(b"\r\n\r\n")
        first = await client.answer()
        await client.send(b"GET /health?" + b"q" * 500)
        await asyncio.sleep(0.02)
        await client.send(b" HTTP/1.1\r\nhost: x\r\n\r\n")
        second = await client.answer()

    assert (first.status, second.status) == (200, 200)


async def test_a_target_that_is_too_long_is_refused(scene: Scene) -> None:
    request = b"GET /v1/models/" + b"x" * 2000 + b" HTTP/1.1\r\nhost: x\r\n\r\n"

    answer, _ = await scene.ask(request)

    assert_refused(answer, 431, "headers_too_large")


@pytest.mark.parametrize("packet", [200, 5000])
async def test_a_line_without_end_is_refused_as_it_grows(packet: int, scene: Scene) -> None:
    """A21's kin: the parser would keep all of it."""
    request = chat_request()[:-40].partition(b"\r\n\r\n")[0] + b"\r\nx: "
    async with scene.client() as client:
        await client.send(request)
        with contextlib.suppress(ConnectionError):
            for _ in range(10):
                await client.send(b"y" * packet)
                await asyncio.sleep(0.002)
        answer = await client.answer()

    assert_refused(answer, 431, "headers_too_large")


async def test_a_trailer_without_end_is_refused_as_it_grows(scene: Scene) -> None:
    """A21's kin: also behind a chunked body."""
    body = chat_body()
    async with scene.client() as client:
        await client.send(CHUNKED + b"%x\r\n%s\r\n0\r\n" % (len(body), body))
        for _ in range(10):
            await asyncio.sleep(0.002)
            await client.send(b"y" * 200)
        answer = await client.answer()

    assert_refused(answer, 431, "headers_too_large")
    assert scene.chats == []


async def test_many_trailers_are_refused(scene: Scene) -> None:
    """A21's kin: they count with the head."""
    body = chat_body()
    trailers = b"".join(b"x-%d: %s\r\n" % (n, b"y" * 100) for n in range(100))

    answer, _ = await scene.ask(CHUNKED + b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailers))

    assert_refused(answer, 431, "headers_too_large")
    assert scene.chats == []


async def test_trailers_count_with_the_smallest_head(scene: Scene) -> None:
    """A21's kin: each of the two is within the limit."""
    body = chat_body()
    head = CHUNKED.replace(b"host: x", b"host: x\r\nx-more: " + b"y" * 300)
    trailers = b"".join(b"x-%02d: %s\r\n" % (n, b"y" * 100) for n in range(37))
    async with scene.client() as client:
        await client.send(head)
        await asyncio.sleep(0.02)
        await client.send(b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailers))
        answer = await client.answer()

    assert_refused(answer, 431, "headers_too_large")


async def test_a_large_body_before_the_next_head_does_not_count_as_one(scene: Scene) -> None:
    """A11's kin: two requests that share a packet."""
    large = chat_request(chat_body(padding="x" * 30_000))
    async with scene.client() as client:
        await client.send(large + chat_request()[:20])
        first = await client.answer()
        await client.send(chat_request()[20:])
        second = await client.answer()

    assert (first.status, second.status) == (200, 200)
    assert len(scene.chats) == 2


# Expectations


async def test_a_client_that_asks_first_is_told_to_go_on(scene: Scene) -> None:
    """A23."""
    body = chat_body()
    head = chat_request(body, "expect: 100-continue")[: -len(body)]
    async with scene.client() as client:
        await client.send(head)
        interim = await client.reader.readuntil(b"\r\n\r\n")
        await client.send(body)
        answer = await client.answer()

    assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer.status == 200
    assert scene.chats[0].body == body


async def test_a_client_of_http_1_0_is_not_told_to_go_on(scene: Scene) -> None:
    """A23: it would take the interim answer for the answer."""
    request = chat_request(chat_body(), "expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0")

    answer, _ = await scene.ask(request)

    assert answer.status == 200


async def test_a_client_that_asks_first_is_refused_before_it_sends(scene: Scene) -> None:
    """A11, A23."""
    body = b"x" * (MAX_BODY + 1)
    head = chat_request(body, "expect: 100-continue")[: -len(body)]

    answer, rest = await scene.ask(head)

    assert_refused(answer, 413, "request_too_large")
    assert rest == b""


async def test_a_client_that_is_refused_is_not_told_to_go_on(scene: Scene) -> None:
    """A1, A23."""
    head = chat_request(b"", "expect: 100-continue", "transfer-encoding: chunked")
    head = head.replace(b"content-length: 0\r\n", b"")

    answer, rest = await scene.ask(head + b"ZZZ\r\n")

    assert answer.status == 400
    assert rest == b""


async def test_another_expectation_fails(scene: Scene) -> None:
    """A23."""
    answer, rest = await scene.ask(chat_request(chat_body(), "expect: 42"))

    assert_refused(answer, 417, "expectation_failed")
    assert rest == b""
    assert scene.chats == []


# Requests in a row


async def echo_model(received: Received, line: Line) -> None:
    """Answer the first request slowest, so that order is not luck."""
    number = int(received.body.rpartition(b'"user": "')[2].partition(b'"')[0])
    await asyncio.sleep(0.06 - number * 0.02)
    body = b'{"number": %d}' % number
    await line.head(200, "content-type: application/json", f"content-length: {len(body)}")
    await line.send(body)


def numbered(number: int) -> bytes:
    return chat_request(chat_body(user=str(number)))


@pytest.mark.parametrize("count", [3, 15])
async def test_pipelined_requests_are_answered_in_order(count: int, scene: Scene) -> None:
    """A23: also more of them than are read ahead."""
    async with scene.client(on_chat(echo_model)) as client:
        await client.send(b"".join(numbered(n % 3) for n in range(count)))
        answers = [await client.answer() for _ in range(count)]

    assert [a.body for a in answers] == [b'{"number": %d}' % (n % 3) for n in range(count)]


class Endless:
    """A model that begins a stream, then only waits until it is let go."""

    def __init__(self) -> None:
        self.let_go = False
        self.begun = False

    async def __call__(self, _: Received, line: Line) -> None:
        await begin_stream(line)
        await line.chunk(delta("one "))
        self.begun = True
        await line.until_closed()
        self.let_go = True


@pytest.mark.parametrize("later", [False, True])
async def test_a_client_that_leaves_with_requests_in_line_is_noticed(
    later: bool, scene: Scene
) -> None:
    """A19, A23: reading ahead must not hide that the client is gone."""
    endless = Endless()
    async with scene.client(on_chat(endless)) as client:
        stream = chat_request(chat_body(stream=True))
        await client.send(stream if later else stream + numbered(1) * 2)
        await eventually(lambda: endless.begun)
        if later:
            await client.send(numbered(1) * 2)
            await asyncio.sleep(0.05)
        client.leave()
        seconds = await eventually(lambda: endless.let_go)
        await asyncio.sleep(0.05)

    assert seconds < 0.25
    assert len(scene.chats) == 1


async def stream_slowly(received: Received, line: Line) -> None:
    await begin_stream(line)
    for n in range(4):
        await line.chunk(delta(f"{n} "))
        await asyncio.sleep(0.05)
    await line.chunk(delta(finish_reason="stop") + DONE)
    await line.chunk(b"")


async def behind_a_stream(client: RawClient, behind: bytes) -> RawAnswer:
    await client.send(chat_request(chat_body(stream=True)))
    await client.reader.readuntil(b"\r\n\r\n")
    await client.send(behind)
    return RawAnswer(200, {}, await client._body({"transfer-encoding": "chunked"}))


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage\r\n\r\n",
        b"\x00" * 100_000,
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1, 1\r\n\r\n",
        CHUNKED + b"zz\r\n",
    ],
    ids=["words", "zeros", "bad head", "bad body"],
)
async def test_garbage_behind_a_running_request_does_not_touch_its_answer(
    garbage: bytes, scene: Scene
) -> None:
    """A23, F7."""
    async with scene.client(on_chat(stream_slowly)) as client:
        answer = await behind_a_stream(client, garbage)
        rest = await client.rest()

    assert answer.body.count(b"data: ") == 6
    assert answer.body.endswith(DONE)
    assert rest == b""
    assert len(scene.chats) == 1


@pytest.mark.parametrize(
    "bad",
    [
        b"garbage\r\n\r\n",
        CHUNKED + b"zz\r\n",
    ],
    ids=["bad head", "bad body"],
)
async def test_whole_requests_before_a_bad_one_are_all_answered(bad: bytes, scene: Scene) -> None:
    """A23: the connection closes behind the last good one."""
    async with scene.client(on_chat(echo_model)) as client:
        await client.send(numbered(0) + numbered(1) + bad)
        answers = [await client.answer(), await client.answer()]
        rest = await client.rest()

    assert [a.body for a in answers] == [b'{"number": 0}', b'{"number": 1}']
    assert answers[1].headers["connection"] == "close"
    assert rest == b""
    assert len(scene.chats) == 2
