"""Clients that send odd things, leave, or stop reading: by our server and by plain uvicorn."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import uvicorn

from app.errors import ServerShuttingDown
from app.routes.error_responses import last_event
from app.server import create_app
from app.serving.run import listen
from app.upstream.usage import StreamTap
from tests.support.fake_model import (
    DONE,
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
    chat_body,
    chat_request,
    eventually,
    raw_client,
    running_proxy,
    settings,
)

pytestmark = pytest.mark.anyio

Serving = Callable[..., AbstractAsyncContextManager[Proxy]]
AT_ONCE_SECONDS = 0.25


@asynccontextmanager
async def plain_uvicorn(upstream_url: str, **sections: Any) -> AsyncIterator[Proxy]:
    """Run the app by a server that knows nothing of it."""
    app = create_app(settings(upstream_url, **sections), {})
    server = uvicorn.Server(
        uvicorn.Config(app, http="httptools", ws="none", lifespan="on", log_config=None)
    )
    listener = listen("127.0.0.1", 0)
    task = asyncio.create_task(server._serve([listener]))
    await eventually(lambda: server.started)
    try:
        yield Proxy(listener.getsockname()[1], server, app.services)  # type: ignore[arg-type]
    finally:
        app.services.drain.interrupt_all()
        server.should_exit = True
        await task


@pytest.fixture(params=[running_proxy, plain_uvicorn], ids=["our server", "plain uvicorn"])
def serving(request: pytest.FixtureRequest) -> Serving:
    """The proxy by either server."""
    chosen: Serving = request.param
    return chosen


def chats(model: FakeModel) -> list[Received]:
    return [r for r in model.requests if r.method == "POST"]


def metric(proxy: Proxy, name: str) -> float:
    """Return a figure by its whole name, labels included."""
    lines = proxy.services.metrics.render().decode().splitlines()
    found = (line.rpartition(" ") for line in lines)
    return next((float(value) for key, _, value in found if key == name), 0.0)


def aborted(phase: str) -> str:
    return f'chat_proxy_client_abort_total{{phase="{phase}"}}'


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


Ask = Callable[[bytes], Awaitable[tuple[RawAnswer, list[Received]]]]


@pytest.fixture(scope="module")
async def ask() -> AsyncIterator[Ask]:
    """Send a request on a connection of its own; return the answer and what the upstream got."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:

        async def send(request: bytes) -> tuple[RawAnswer, list[Received]]:
            model.requests.clear()
            async with asyncio.timeout(3), raw_client(proxy) as client:
                await client.send(request)
                return await client.answer(), chats(model)

        yield send


# What they send


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"[]", "invalid_json_root"),
        (b'{"a":"\xff"}', "invalid_encoding"),
        (b'{"a":NaN}', "invalid_number"),
        (b'{"a":' + b"[" * 70 + b"]" * 70 + b"}", "too_deep"),
        (b"[" + b"{}," * 600_000 + b"{}]", "too_complex"),
        (b'{"n":1000000000}', "invalid_value"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_cannot_be_read_never_reaches_the_upstream(
    body: bytes, code: str, ask: Ask
) -> None:
    """A1, A2, A3, A5, A9, A10, A24."""
    answer, received = await ask(chat_request(body))

    assert answer.status == 400
    assert answer.error["code"] == answer.headers["x-chat-proxy-error"] == code
    assert answer.error["type"] == "invalid_request_error"
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    assert "connection" not in answer.headers
    assert received == []


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "GZIP", "identity, gzip"])
async def test_a_compressed_body_is_refused(encoding: str, ask: Ask) -> None:
    """A12."""
    answer, received = await ask(chat_request(chat_body(), f"content-encoding: {encoding}"))

    assert answer.status == 415
    assert answer.error["code"] == "unsupported_content_encoding"
    assert received == []


async def test_a_body_that_says_it_is_not_compressed_passes(ask: Ask) -> None:
    """A12."""
    answer, received = await ask(chat_request(chat_body(), "content-encoding: identity"))

    assert answer.status == 200
    assert len(received) == 1


def typed(content_type: str, *headers: str) -> bytes:
    request = chat_request(chat_body(), *headers)
    return request.replace(b"content-type: application/json\r\n", content_type.encode())


@pytest.mark.parametrize(
    ("content_type", "headers", "status"),
    [
        ("content-type: text/plain\r\n", [], 200),
        ("content-type: application/x-www-form-urlencoded\r\n", [], 200),
        ("", [], 200),
        ("content-type: application/json\r\n", ["origin: https://evil.example"], 200),
        ("content-type: text/plain\r\n", ["origin: https://evil.example"], 415),
        ("content-type: Text/Plain;charset=utf-8\r\n", ["origin: null"], 415),
        ("content-type: multipart/form-data; boundary=x\r\n", ["origin: https://e"], 415),
    ],
)
async def test_a_browsers_form_is_refused_and_curls_habit_is_not(
    content_type: str, headers: list[str], status: int, ask: Ask
) -> None:
    """A13."""
    answer, received = await ask(typed(content_type, *headers))

    assert answer.status == status
    assert len(received) == (1 if status == 200 else 0)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"model": "fake"},
        {"messages": []},
        {"messages": "text"},
        {"messages": [{"role": "user", "content": None}, {"role": "x", "content": 7}]},
        {"messages": [{"role": "user", "content": [{"type": "new", "x": {}}]}]},
        {"messages": [{"role": "tool", "tool_call_id": "1", "content": "orphan"}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}, {"id": "1"}]}]},
        {"messages": [], "vendor": {"a": [1]}, "max_tokens": -1, "stream": "yes"},
        {"messages": [{"role": "user", "content": "\ud83d"}], "seed": 10**30},
    ],
)
async def test_what_the_upstream_may_judge_is_sent_as_it_came(
    body: dict[str, Any], ask: Ask
) -> None:
    """A4, A6, A14, A15, A16, A24."""
    encoded = json.dumps(body, indent=1).encode()

    answer, received = await ask(chat_request(encoded))

    assert answer.status == 200
    assert [r.body for r in received] == [encoded]


async def test_a_key_that_stands_twice_is_sent_once() -> None:
    """A8."""
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request(b'{"model":"a","messages":[],"model":"fake"}'))
        await client.answer()
        repeated = metric(proxy, "chat_proxy_dup_key_total")

    assert chats(model)[0].body == b'{"model":"fake","messages":[]}'
    assert repeated == 1


@pytest.mark.parametrize("header", ["x-request-id: a\tb", "x-request-id: " + "x" * 129])
async def test_a_request_id_that_could_do_harm_is_replaced(header: str, ask: Ask) -> None:
    """F6."""
    answer, received = await ask(chat_request(chat_body(), header))

    assert len(answer.headers["x-request-id"]) == 32
    assert received[0].header("x-request-id") == answer.headers["x-request-id"]


@pytest.mark.parametrize("value", ["a\x00b", "a\x01b", "\xe4"])
async def test_an_odd_header_of_the_upstream_never_breaks_the_answer(value: str) -> None:
    """F8."""

    async def odd(received: Received, line: Line) -> None:
        body = b'{"choices":[]}'
        await line.head(
            200, "content-type: application/json", f"x-odd: {value}", f"content-length: {len(body)}"
        )
        await line.send(body)

    async with (
        asyncio.timeout(3),
        fake_model(on_chat(odd)) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request())
        answer = await client.answer()

    assert answer.status != 500
    assert answer.headers["content-type"] == "application/json"
    assert "\x00" not in answer.headers.get("x-odd", "")


# When they leave


class Waiting:
    """A model that answers as far as it is told, then waits until it is let go."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.asked = False
        self.let_go = False

    async def __call__(self, _: Received, line: Line) -> None:
        if self._pieces:
            await begin_stream(line)
        for piece in self._pieces:
            await line.chunk(piece)
        self.asked = True
        await line.until_closed()
        self.let_go = True


async def test_a_client_that_leaves_while_uploading_never_reaches_the_upstream(
    serving: Serving,
) -> None:
    """A17."""
    async with fake_model(polite) as model, serving(model.url) as proxy:
        async with raw_client(proxy) as client:
            await client.send(chat_request()[:-5])
            await asyncio.sleep(0.02)
            client.leave()
        await eventually(lambda: metric(proxy, aborted("body")) == 1)

    assert chats(model) == []
    assert proxy.services.admission.held_bytes == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_before_the_answer_frees_the_upstream(
    serving: Serving, stream: bool
) -> None:
    """A18."""
    waiting = Waiting()
    async with fake_model(on_chat(waiting)) as model, serving(model.url) as proxy:
        async with raw_client(proxy) as client:
            await client.send(chat_request(chat_body(stream=stream)))
            await eventually(lambda: waiting.asked)
            client.leave()
            seconds = await eventually(lambda: waiting.let_go)
        await eventually(lambda: metric(proxy, aborted("ttfb")) == 1)

    assert seconds < AT_ONCE_SECONDS
    assert proxy.services.admission.held_bytes == 0


async def test_a_client_that_leaves_in_mid_stream_frees_the_upstream(serving: Serving) -> None:
    """A19: and what the upstream counted so far is not lost."""
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n'
    waiting = Waiting(delta("one "), usage)
    async with fake_model(on_chat(waiting)) as model, serving(model.url) as proxy:
        async with raw_client(proxy) as client:
            await client.send(chat_request(chat_body(stream=True)))
            await client.reader.readuntil(b'"usage"')
            client.leave()
            seconds = await eventually(lambda: waiting.let_go)
        await eventually(lambda: metric(proxy, aborted("stream")) == 1)
        prompt_tokens = metric(proxy, 'chat_proxy_upstream_tokens_total{kind="prompt"}')

    assert seconds < AT_ONCE_SECONDS
    assert prompt_tokens == 7


async def test_one_client_that_leaves_disturbs_no_other(serving: Serving) -> None:
    """A19."""
    waiting = Waiting(delta("one "))
    async with (
        fake_model(on_chat(waiting)) as model,
        serving(model.url) as proxy,
        raw_client(proxy) as leaving,
        raw_client(proxy) as staying,
        raw_client(proxy) as another,
    ):
        for client in (leaving, staying):
            await client.send(chat_request(chat_body(stream=True)))
            await client.reader.readuntil(b"one ")
        leaving.leave()
        await eventually(lambda: waiting.let_go)
        model.behaviour = polite
        await another.send(chat_request())
        answer = await another.answer()
        await asyncio.sleep(0.05)

        assert answer.status == 200
        assert not staying.reader.at_eof()


@pytest.mark.parametrize("moment", ["at once", "before the answer", "in mid-stream"])
async def test_a_client_that_closes_its_side_has_left(serving: Serving, moment: str) -> None:
    """A22: half a close is a close, always: a client that went looks just the same."""
    waiting = Waiting(delta("one ")) if moment == "in mid-stream" else Waiting()
    async with (
        asyncio.timeout(5),
        fake_model(on_chat(waiting)) as model,
        serving(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request(chat_body(stream=True)))
        if moment != "at once":
            await eventually(lambda: waiting.asked)
        if moment == "in mid-stream":
            await client.reader.readuntil(b"one ")
        client.writer.write_eof()
        rest = await client.rest()
        await eventually(lambda: waiting.let_go or not chats(model))
        phase = "stream" if moment == "in mid-stream" else "ttfb"
        phases = (phase, "body") if moment == "at once" else (phase,)
        await eventually(lambda: sum(metric(proxy, aborted(each)) for each in phases) == 1)

    assert b"[DONE]" not in rest
    assert not rest.startswith(b"HTTP/1.1")


# When they stop reading


class Flood:
    """A model that streams without end and knows how much it could send."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.let_go = False

    async def __call__(self, _: Received, line: Line) -> None:
        # A small buffer, so that what is sent has really gone to the proxy.
        line.writer.transport.set_write_buffer_limits(0)
        await begin_stream(line)
        piece = delta("x" * 16_000)
        try:
            while True:
                await line.chunk(piece)
                self.sent_bytes += len(piece)
        finally:
            self.let_go = True


async def test_a_client_that_stops_reading_is_cut_off(serving: Serving) -> None:
    """A20: what it does not take is not piled up for it either."""
    flood = Flood()
    limits = {"client_stall_seconds": 0.5}
    async with (
        fake_model(on_chat(flood)) as model,
        serving(model.url, limits=limits) as proxy,
    ):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", proxy.port))
            client.sendall(chat_request(chat_body(stream=True)))
            await eventually(lambda: flood.sent_bytes > 0)
            await asyncio.sleep(0.3)
            piled_up = flood.sent_bytes
            await asyncio.sleep(0.1)
            still_sent = flood.sent_bytes - piled_up
            held = [
                c.transport.get_write_buffer_size() for c in proxy.server.server_state.connections
            ]
            seconds = await eventually(lambda: flood.let_go, 3)
        await eventually(lambda: metric(proxy, "chat_proxy_client_stall_total") == 1)

    assert still_sent == 0
    assert 0 < max(held) <= 128 * 1024
    assert seconds < 1.5


async def test_a_client_that_reads_slowly_gets_everything(serving: Serving) -> None:
    """A20: slow is not stalled."""

    async def long(received: Received, line: Line) -> None:
        await begin_stream(line)
        for _ in range(60):
            await line.chunk(delta("x" * 100_000))
        await line.chunk(delta(finish_reason="stop") + b"data: [DONE]\n\n")
        await line.chunk(b"")

    async with (
        fake_model(on_chat(long)) as model,
        serving(model.url, limits={"client_stall_seconds": 0.5}) as proxy,
        raw_client(proxy) as client,
    ):
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await client.send(chat_request(chat_body(stream=True)))
        for _ in range(8):
            await asyncio.sleep(0.1)
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(0.002)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        answer = await client.answer()

    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert len(answer.body) > 6_000_000


# When there are too many of them, or the upstream fails them


async def test_more_bytes_than_may_be_held_at_once_are_refused_for_a_moment() -> None:
    """E7."""
    waiting = Waiting()
    async with (
        asyncio.timeout(3),
        fake_model(on_chat(waiting)) as model,
        running_proxy(model.url, limits={"max_inflight_bytes": 150}) as proxy,
        raw_client(proxy) as first,
        raw_client(proxy) as second,
    ):
        await first.send(chat_request())
        await eventually(lambda: waiting.asked)
        await second.send(chat_request(chat_body(padding="x" * 100)))
        answer = await second.answer()

    assert answer.status == 503
    assert answer.error["code"] == "overloaded"
    assert answer.headers["retry-after"] == "1"


async def test_half_an_answer_that_is_no_stream_breaks_the_connection() -> None:
    """B7: nobody takes it for a whole one."""

    async def half(_: Received, line: Line) -> None:
        await line.head(200, "content-type: audio/mpeg", "transfer-encoding: chunked")
        await line.chunk(b"half")
        await asyncio.sleep(0.05)
        line.reset()

    async with (
        asyncio.timeout(3),
        fake_model(half) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(b"POST /v1/audio/speech HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
        await client.reader.readuntil(b"half\r\n")
        rest = await client.rest()

    assert rest == b""


def test_a_stream_that_said_all_it_had_gets_no_last_event() -> None:
    """E1: the server stops between `[DONE]` and the end of the connection."""
    tap = StreamTap()
    tap.feed(DONE)

    assert last_event(ServerShuttingDown(), tap) == b""


def test_a_last_event_begins_on_a_line_of_its_own() -> None:
    """B8."""
    tap = StreamTap()
    tap.feed(b'data: {"half')

    assert last_event(ServerShuttingDown(), tap).startswith(b"\n\ndata: {")
