"""How answers are written: framing, keep-alive, and what an app may not do."""

import asyncio
import gc
import socket
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from chat_proxy.cli.serve import listen, server_of
from chat_proxy.http.server.cycle import SHORTCUTS, Cycle
from chat_proxy.http.server.flow import Flow
from chat_proxy.http.write_batch import WriteBatch
from chat_proxy.proxy.services import Services
from chat_proxy.routes.front.server_hooks import server_hooks
from chat_proxy.telemetry.metrics import Metrics
from chat_proxy.wiring import make_services
from tests.support.clock import within
from tests.support.fake_model import (
    COMPLETION,
    Line,
    Received,
    answer_json,
    begin_stream,
    fake_model,
    on_chat,
    polite,
)
from tests.support.live import (
    Proxy,
    RawClient,
    chat_body,
    chat_request,
    eventually,
    raw_client,
    running_proxy,
    settings,
)

pytestmark = pytest.mark.anyio

App = Callable[[Scope, Receive, Send], Awaitable[None]]
GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


class Bare(FastAPI):
    """A bare ASGI app in the place of ours, with services for the server but not opened."""

    def __init__(self, app: App) -> None:
        super().__init__()
        self._app = app
        self.state.services = make_services(settings(), {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._app(scope, receive, send)
            return
        for moment in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{moment}.complete"})


@asynccontextmanager
async def serving(app: App, **sections: Any) -> AsyncIterator[RawClient]:
    """Serve a bare ASGI app by our protocol and connect to it."""
    server = server_of(Bare(app), settings(**sections))
    listener = listen("127.0.0.1", 0)
    proxy = Proxy(listener.getsockname()[1], server, Services.__new__(Services))
    task = asyncio.create_task(server._serve([listener]))
    await eventually(lambda: server.started)
    try:
        async with within(6), raw_client(proxy) as client:
            client.server = server  # type: ignore[attr-defined]
            yield client
    finally:
        server.should_exit = True
        await task


def answering(
    *pieces: bytes, status: int = 200, headers: Any = (), unfinished: bool = False
) -> App:
    """An app that sends these pieces, the last one as the last."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        for number, piece in enumerate(pieces, start=1):
            more = unfinished or number < len(pieces)
            await send({"type": "http.response.body", "body": piece, "more_body": more})

    return app


def length(size: int) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % size


async def wire(client: RawClient) -> bytes:
    """Everything until the end, without the date."""
    lines = (await client.rest()).split(b"\r\n")
    return b"\r\n".join(line for line in lines if not line.startswith(b"date: "))


async def test_an_answer_of_known_length_is_written_as_it_is() -> None:
    async with serving(answering(b"he", b"llo", headers=[length(5)])) as client:
        await client.send(GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        written = await wire(client)

    assert written == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"


async def test_an_answer_of_unknown_length_is_written_in_chunks() -> None:
    async with serving(answering(b"he", b"", b"llo" * 10, b"")) as client:
        await client.send(GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
        written = await wire(client)

    head, _, body = written.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    assert body == b"2\r\nhe\r\n1e\r\n" + b"llo" * 10 + b"\r\n0\r\n\r\n"


async def test_a_connection_is_used_again() -> None:
    async with serving(answering(b"hello")) as client:
        for _ in range(3):
            await client.send(GET)
            answer = await client.answer()

            assert answer.body == b"hello"
            assert "connection" not in answer.headers


async def test_a_resting_connection_holds_nothing_of_its_last_request() -> None:
    class Held:
        """What can be seen to go."""

    held = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["held"] = Held()
        held.append(weakref.ref(scope["held"]))
        await answering(b"hello")(scope, receive, send)

    gc.disable()
    try:
        async with serving(app) as client:
            await client.send(GET)
            await client.answer()

            await eventually(lambda: held[0]() is None)
    finally:
        gc.enable()


async def test_an_app_may_close_the_connection() -> None:
    closes = (b"connection", b"close")
    async with serving(answering(b"hello", headers=[length(5), closes])) as client:
        await client.send(GET)
        written = await wire(client)

    assert written.count(b"connection: close") == 1


async def test_http_1_0_gets_its_answer_by_the_end_of_the_connection() -> None:
    async with serving(answering(b"he", b"llo")) as client:
        await client.send(b"GET / HTTP/1.0\r\n\r\n")
        written = await wire(client)

    assert written == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello"


async def test_http_1_0_gets_a_known_length_too() -> None:
    async with serving(answering(b"hello", headers=[length(5)])) as client:
        await client.send(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
        written = await wire(client)

    assert written == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"


@pytest.mark.parametrize("headers", [[], [length(5)]])
async def test_head_gets_the_head_only(headers: list[tuple[bytes, bytes]]) -> None:
    async with serving(answering(b"he", b"llo", headers=headers)) as client:
        for _ in range(2):
            await client.send(GET.replace(b"GET", b"HEAD"))
            head = await client.reader.readuntil(b"\r\n\r\n")

            assert head.startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_has_no_framing(status: int) -> None:
    async with serving(answering(b"", status=status)) as client:
        for _ in range(2):
            await client.send(GET)
            head = await client.reader.readuntil(b"\r\n\r\n")

            assert b"transfer-encoding" not in head
            assert b"content-length" not in head


@pytest.mark.parametrize("value", [b"a\r\nx-evil: 1", b"a\nb", b"a\rb", b"a\0b"])
async def test_a_header_with_a_line_break_is_refused(value: bytes) -> None:
    """F8: the client hears of a mistake, not of a second header."""
    async with serving(answering(b"hello", headers=[(b"x", value)])) as client:
        await client.send(GET)
        answer = await client.answer()
        rest = await client.rest()

    assert answer.status == 500
    assert answer.error["code"] == answer.headers["x-chat-proxy-error"] == "internal_error"
    assert "x-evil" not in answer.headers
    assert rest == b""


async def test_an_answer_longer_than_it_said_never_reaches_the_next_request() -> None:
    """F7: what is too much would be read as another answer."""
    async with serving(answering(b"hello", b"EVIL", headers=[length(5)])) as client:
        await client.send(GET + GET)
        written = await wire(client)

    assert written.count(b"HTTP/1.1") == 1
    assert b"EVIL" not in written


async def test_a_body_behind_an_answer_that_has_none_is_refused() -> None:
    async with serving(answering(b"EVIL", status=204)) as client:
        await client.send(GET)
        written = await wire(client)

    assert b"EVIL" not in written


async def test_an_answer_shorter_than_it_said_closes_the_connection() -> None:
    async with serving(answering(b"hell", headers=[length(5)])) as client:
        await client.send(GET + GET)
        written = await wire(client)

    assert written.count(b"HTTP/1.1") == 1
    assert written.endswith(b"hell")


async def test_an_answer_that_is_not_finished_does_not_look_whole() -> None:
    async with serving(answering(b"hello", unfinished=True)) as client:
        await client.send(GET)
        written = await wire(client)

    assert written.endswith(b"5\r\nhello\r\n")


async def silent(scope: Scope, receive: Receive, send: Send) -> None:
    """Return without an answer."""


async def body_first(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.body", "body": b"hello"})


async def broken(scope: Scope, receive: Receive, send: Send) -> None:
    raise ValueError("secret")


@pytest.mark.parametrize("app", [silent, body_first, broken])
async def test_a_mistake_of_the_app_is_answered_in_json(app: App) -> None:
    """E10, F14."""
    async with serving(app) as client:
        await client.send(GET)
        answer = await client.answer()
        rest = await client.rest()

    assert answer.status == 500
    assert answer.error["code"] == "internal_error"
    assert b"secret" not in answer.body
    assert rest == b""


async def test_nothing_is_sent_behind_a_complete_answer() -> None:
    raised = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answering(b"hello", headers=[length(5)])(scope, receive, send)
        try:
            await send({"type": "http.response.body", "body": b"EVIL"})
        except RuntimeError as error:
            raised.append(str(error))

    async with serving(app) as client:
        await client.send(GET)
        answer = await client.answer()
        await client.send(GET)
        again = await client.answer()

    assert answer.body == again.body == b"hello"
    assert raised == ["the answer is complete already"] * 2


async def test_whoever_asks_late_is_told_at_once_that_the_client_is_gone() -> None:
    """A18."""
    told = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope["extensions"][SHORTCUTS].watch(lambda: told.append("gone"))
        await send({"type": "http.response.start", "status": 200})

    async with serving(app) as client:
        await client.send(GET)
        await asyncio.sleep(0.02)
        client.leave()
        await eventually(lambda: told == ["gone"])


def answering_at_once(status: int = 200, headers: Any = (), body: bytes = b"hello") -> App:
    """An app that sends a whole answer by the shortcut."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"][SHORTCUTS].answer(status, list(headers), body)

    return app


@pytest.mark.parametrize(
    ("request_line", "status", "headers", "written"),
    [
        (b"GET / HTTP/1.1", 200, [], b"content-length: 5\r\nconnection: close\r\n\r\nhello"),
        (b"GET / HTTP/1.0", 200, [], b"content-length: 5\r\nconnection: close\r\n\r\nhello"),
        (b"HEAD / HTTP/1.1", 200, [], b"content-length: 5\r\nconnection: close\r\n\r\n"),
        (
            b"GET / HTTP/1.1",
            200,
            [(b"connection", b"close"), (b"a", b"b")],
            b"connection: close\r\na: b\r\ncontent-length: 5\r\n\r\nhello",
        ),
    ],
)
async def test_a_whole_answer_is_written_in_one_step(
    request_line: bytes, status: int, headers: Any, written: bytes
) -> None:
    async with serving(answering_at_once(status, headers)) as client:
        await client.send(request_line + b"\r\nhost: x\r\nconnection: close\r\n\r\n")

        assert await wire(client) == b"HTTP/1.1 200 OK\r\n" + written


async def test_an_answer_that_can_have_no_body_tells_no_length() -> None:
    async with serving(answering_at_once(204, body=b"")) as client:
        for _ in range(2):
            await client.send(GET)
            head = await client.reader.readuntil(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 204 ")
    assert b"content-length" not in head


async def test_a_whole_answer_behind_a_begun_one_is_refused() -> None:
    raised: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answering(b"hello", headers=[length(5)])(scope, receive, send)
        try:
            await answering_at_once()(scope, receive, send)
        except RuntimeError as error:
            raised.append(str(error))

    async with serving(app) as client:
        await client.send(GET)
        answer = await client.answer()

    assert (answer.body, raised) == (b"hello", ["the answer has begun already"])


async def test_no_whole_answer_is_sent_to_a_client_that_does_not_read() -> None:
    """The app sends it by messages then, which wait."""
    large = b"x" * 8_000_000
    sent: list[bool] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        sent.append(scope["extensions"][SHORTCUTS].answer(200, [], large))
        if not sent[-1]:
            await answering(large, headers=[length(len(large))])(scope, receive, send)

    async with serving(app) as client:
        await client.send(GET + GET)
        await asyncio.sleep(0.05)
        bodies = [(await client.answer()).body for _ in range(2)]

    assert bodies == [large, large]
    assert sent == [True, False]


@pytest.mark.parametrize("streams", [False, True])
async def test_an_answer_that_waits_for_another_to_be_read_has_not_begun(streams: bool) -> None:
    """A client that pipelines and reads slowly: what ends the second leaves the first whole."""
    asked = 0

    async def behave(_: Received, line: Line) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            await answer_json(line, {**COMPLETION, "more": "x" * 6_000_000})
        elif streams:
            await begin_stream(line)
            await line.chunk(b'data: {"error":{"message":"no","code":429}}\n\n')
            await line.chunk(b"")
        else:
            await answer_json(line, COMPLETION)

    async with (
        fake_model(on_chat(behave)) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await client.send(chat_request(chat_body()) + chat_request(chat_body(stream=streams)))
        await eventually(lambda: asked == 2)
        await asyncio.sleep(0.2)
        proxy.services.drain.interrupt_all()
        await asyncio.sleep(0.1)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        first, second = [await client.answer() for _ in range(2)]

    assert len(first.body) > 6_000_000
    assert second.error["code"] == "server_shutting_down"


async def test_a_body_is_taken_whole_only_when_all_of_it_is_there() -> None:
    taken: list[bytes | None] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        taken.append(scope["extensions"][SHORTCUTS].take_whole())
        if taken[-1] is None:
            await receive()
            await receive()
        await answering_at_once()(scope, receive, send)

    post = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n"
    async with serving(app) as client:
        for pieces in ((post + b"body",), (post + b"bo", b"dy"), (GET,)):
            for piece in pieces:
                await client.send(piece)
                await asyncio.sleep(0.02)
            assert (await client.answer()).body == b"hello"

    assert taken == [b"body", None, b""]


async def test_nothing_is_taken_of_or_answered_to_a_client_that_left() -> None:
    seen: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        shortcuts = scope["extensions"][SHORTCUTS]
        seen.append(shortcuts.take_whole())
        seen.append(shortcuts.answer(200, [], b"hello"))

    async with serving(app) as client:
        await client.send(GET)
        await asyncio.sleep(0.02)
        client.leave()
        await eventually(lambda: len(seen) == 2)

    assert seen == [None, True]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/healthz", 200), ("HEAD", "/v1/models", 405), ("GET", "/v1/models", 200)],
)
async def test_methods_through_the_whole_proxy(method: str, path: str, status: int) -> None:
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        for _ in range(2):
            await client.send(f"{method} {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            head = await client.reader.readuntil(b"\r\n\r\n")
            if method == "GET":
                await client._body(
                    {"content-length": head.partition(b"gth: ")[2].split()[0].decode()}
                )

            assert head.startswith(b"HTTP/1.1 %d " % status)


async def test_a_close_that_the_client_asks_for_is_honoured() -> None:
    async with (
        within(3),
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request(b"{}", "connection: close"))
        answer = await client.answer()
        rest = await client.rest()

    assert answer.status == 200
    assert answer.headers["connection"] == "close"
    assert rest == b""


async def test_a_body_that_breaks_behind_a_begun_answer_ends_both() -> None:
    """F7: no second head is written into an answer."""
    heard = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answering(b"hello", unfinished=True)(scope, receive, send)
        while (message := await receive())["type"] != "http.disconnect":
            pass
        heard.append(message["type"])

    async with serving(app) as client:
        await client.send(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        await client.reader.readuntil(b"hello\r\n")
        await client.send(b"not a size\r\n")
        rest = await client.rest()

    assert rest == b""
    assert heard == ["http.disconnect"]


async def test_a_client_that_never_takes_the_end_of_its_answer_is_let_go() -> None:
    """A20: the answer is complete for the app, and its last part waits in a buffer."""
    app = answering(b"x" * 8_000_000, headers=[length(8_000_000)])

    async with serving(app, limits={"client_stall_seconds": 0.5}) as client:
        server = client.server  # type: ignore[attr-defined]
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(client.writer.get_extra_info("peername"))
            await eventually(lambda: len(server.server_state.connections) == 2)
            reader.sendall(GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
            await eventually(lambda: len(server.server_state.connections) == 1)


@pytest.mark.anyio
@pytest.mark.parametrize("size", [10, 100_000, 1_000_000, 20_000_000])
async def test_a_client_that_leaves_behind_a_body_of_any_size_is_noticed(size: int) -> None:
    """A18: a large body pauses reading; the connection must be read on."""

    async def silent(_: Received, line: Line) -> None:
        await line.until_closed()

    async with (
        fake_model(on_chat(silent)) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request(chat_body(padding="x" * size)))
        await eventually(lambda: any(r.method == "POST" for r in model.requests))
        await asyncio.sleep(0.05)
        client.leave()

        assert await eventually(lambda: not proxy.services.drain._running) < 0.25


class Mute(asyncio.Transport):
    """A transport that must not be written to."""

    def write(self, data: bytes) -> None:  # type: ignore[override] # noqa: ARG002
        raise RuntimeError("write() behind write_eof()")

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        raise AssertionError("there was nothing to write")


class Refused:
    """A connection whose request was refused, and whose answer has been written to its end."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.flow = Flow(Mute(), self.loop, WriteBatch())
        self.server_state = ServerState()

    def on_response_complete(self) -> None:
        raise AssertionError


async def test_nobody_is_told_to_go_on_behind_a_refusal() -> None:
    """A23: the app asks for the body of a request that was refused before it began."""
    line = Refused()
    hooks = server_hooks(Metrics())
    cycle = Cycle(line, {}, keep_alive=True, wants_to_continue=True, hooks=hooks)
    cycle.disconnect()

    assert (await cycle.receive())["type"] == "http.disconnect"
