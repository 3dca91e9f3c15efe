"""Rows A19, A20, B8, B10, B13, B14, B15 and B21: streams whose pieces are relayed as they are read.

The request's task sleeps meanwhile; whatever is out of the ordinary wakes it.
"""

import asyncio
import json
import socket
from itertools import count

import pytest

from chat_proxy.http.client.connection import READ_BUFFER_BYTES, READ_BYTES
from chat_proxy.http.write_batch import write_batch_of
from tests.faults.faulty import (
    AT_ONCE_SECONDS,
    QUICK,
    WORD,
    Streams,
    aborted,
    forget_the_peak,
    last_error,
    metric,
    peak_kilobytes,
)
from tests.support.clock import Stopwatch, own_time
from tests.support.fake_model import (
    DONE,
    Line,
    Received,
    begin_stream,
    delta,
    event,
    fake_model,
    on_chat,
    polite,
    story,
)
from tests.support.live import chat_body, chat_request, eventually, raw_client, running_proxy
from tests.support.meeting import meeting

pytestmark = pytest.mark.anyio

USAGE = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}})
TURTLE = "🐢".encode()
TURTLES = delta("TURTLE").replace(b"TURTLE", TURTLE * 3)
FINISH = delta(finish_reason="stop")
STREAM = chat_request(chat_body(stream=True))
HIGH_WATER_BYTES = 64 * 1024
MOST_HELD_BYTES = HIGH_WATER_BYTES + READ_BYTES + 1024


def tasks_woken() -> int:
    """How many tasks an upstream's bytes, or a new request, have woken in this loop so far."""
    return write_batch_of(asyncio.get_running_loop())._woken


class Numbered:
    """A model that streams numbered events, of so many bytes, until it is told to stop."""

    def __init__(self, event_bytes: int, pause: float = 0.0) -> None:
        self.sent = 0
        self.is_let_go = False
        self.is_to_end = False
        self._filling = "x" * event_bytes
        self._pause = pause

    async def __call__(self, _: Received, line: Line) -> None:
        line.writer.transport.set_write_buffer_limits(0)
        await begin_stream(line)
        try:
            for number in count():
                if self.is_to_end:
                    break
                await line.chunk(delta(f"{number} {self._filling}"))
                self.sent = number + 1
                await asyncio.sleep(self._pause)
            await line.chunk(FINISH + DONE)
            await line.chunk(b"")
        finally:
            self.is_let_go = True


def numbers_in(body: bytes) -> list[int]:
    """The numbers of the events in a stream, in their order; no event may be broken."""
    *events, finish, done, rest = body.split(b"\n\n")
    assert (finish + b"\n\n", done + b"\n\n", rest) == (FINISH, DONE, b"")
    documents = [json.loads(each.removeprefix(b"data: ")) for each in events]
    return [int(each["choices"][0]["delta"]["content"].split()[0]) for each in documents]


async def test_b14_tiny_pieces_pass_while_the_task_sleeps() -> None:
    """Each piece reaches the client as it came, and all but a few wake no task."""
    body = b"".join([TURTLES, *story(3)[:-1], USAGE, DONE])
    pieces = [body[at : at + 2] for at in range(0, len(body), 2)]
    async with meeting(Streams(*pieces, pause=0.0005)) as they:
        await they.ask()
        before = tasks_woken()
        answer = await they.stream()
        woken = tasks_woken() - before

        assert answer.body == body
        assert woken < len(pieces) / 10
        assert they.figure('chat_proxy_upstream_tokens_total{kind="prompt"}') == 7 * 2


async def test_b15_pieces_may_end_anywhere() -> None:
    """Inside characters, events, the usage and `[DONE]`; what is behind `[DONE]` never passes."""
    body = b"".join([TURTLES, USAGE, DONE])
    turtle, usage, done = body.index(TURTLE), body.index(b"usage"), body.index(DONE)
    places = [1, 5, *range(turtle + 1, turtle + 8), usage - 2, usage + 3, *range(done, len(body))]
    async with meeting(polite) as they:
        for place in places:
            parts = (body[:place], body[place:] + b"rubbish")
            they.model.behaviour = on_chat(Streams(WORD, WORD, *parts, pause=0.001))
            answer = await they.stream()
            assert answer.body == WORD * 2 + body, place

        assert they.figure('chat_proxy_upstream_tokens_total{kind="prompt"}') == 7 * len(places)


async def test_b10_done_in_a_piece_of_its_own_ends_a_stream_that_its_upstream_keeps_open() -> None:
    async with meeting(Streams(*[WORD] * 20, DONE[:9], DONE[9:], then="stay")) as they:
        start = own_time()
        answer = await they.stream()

        assert answer.body == WORD * 20 + DONE
        assert own_time() - start < 1.5


async def test_b21_huge_pieces_pass_in_flat_memory() -> None:
    pieces = [delta("x" * 4_000_000) for _ in range(10)]
    size = sum(map(len, pieces)) + len(FINISH + DONE)
    async with meeting(Streams(*pieces, FINISH + DONE, pause=0)) as they:
        await they.client.send(STREAM)
        await they.client.reader.readuntil(b"\r\n\r\n")
        forget_the_peak()
        before, held, got = peak_kilobytes(), 0, 0
        connections = they.proxy.server.server_state.connections
        while got < size:
            got += len(await they.client.reader.read(1_000_000))
            held = max([held, *(one.transport.get_write_buffer_size() for one in connections)])

        assert held <= MOST_HELD_BYTES
        assert peak_kilobytes() - before < 30_000  # those of the model and the client included


async def test_a20_b21_a_slow_reader_holds_the_upstream_back() -> None:
    """It stops and goes; no byte is lost, and never is more held than the buffers of one stream."""
    model = Numbered(8_000)
    async with fake_model(on_chat(model)) as fake, running_proxy(fake.url) as proxy:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", proxy.port))
            client.setblocking(False)
            client.sendall(STREAM)
            loop, body, held = asyncio.get_running_loop(), bytearray(), [0]
            connections = proxy.server.server_state.connections
            for _ in range(20):
                await asyncio.sleep(0.03)
                held += [each.transport.get_write_buffer_size() for each in connections]
                for _ in range(40):
                    body += await loop.sock_recv(client, 8192)
            model.is_to_end = True
            while not body.endswith(b"\r\n0\r\n\r\n"):
                body += await loop.sock_recv(client, 65536)

    assert READ_BUFFER_BYTES < max(held) <= MOST_HELD_BYTES
    assert numbers_in(without_chunks(bytes(body))) == list(range(model.sent))


def without_chunks(answer: bytes) -> bytes:
    """The body of a chunked answer."""
    rest, body = answer.partition(b"\r\n\r\n")[2], b""
    while rest:
        line, _, rest = rest.partition(b"\r\n")
        size = int(line, 16)
        body, rest = body + rest[:size], rest[size + 2 :]
    return body


async def test_a20_a_client_that_stops_amid_small_pieces_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The wait for it begins when it stops, not when the stream began."""
    # The kernel has a clock of its own, which does not wait for this process.
    monkeypatch.setattr("chat_proxy.http.server.timeouts.KERNEL_FACTOR", 1_000)
    model = Numbered(30_000, pause=0.001)
    limits = {"client_stall_seconds": 0.4}
    async with fake_model(on_chat(model)) as fake, running_proxy(fake.url, limits=limits) as proxy:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", proxy.port))
            client.setblocking(False)
            client.sendall(STREAM)
            loop = asyncio.get_running_loop()
            end = loop.time() + 0.8
            while loop.time() < end:
                await loop.sock_recv(client, 65536)
            assert not model.is_let_go
            await eventually(lambda: model.is_let_go)
        await eventually(lambda: metric(proxy, "chat_proxy_client_stall_total") == 1)


async def test_a19_a_client_that_leaves_between_two_pieces_frees_the_upstream() -> None:
    model = Numbered(50)
    async with fake_model(on_chat(model)) as fake, running_proxy(fake.url) as proxy:
        async with raw_client(proxy) as client:
            await client.send(STREAM)
            await client.reader.readuntil(b'"content":"50 ')
            client.leave()
            seconds = await eventually(lambda: model.is_let_go)
        await eventually(lambda: metric(proxy, aborted("stream")) == 1)
        fake.behaviour = polite
        async with raw_client(proxy) as client:
            await client.send(STREAM)
            answer = await client.answer()

    assert seconds < AT_ONCE_SECONDS
    assert answer.body == b"".join(story())


@pytest.mark.parametrize("ending", ["reset", "close"])
async def test_b8_b9_a_stream_that_breaks_between_two_pieces_has_all_that_came(ending: str) -> None:
    sent = [delta(f"{number} ") for number in range(50)]
    async with meeting(Streams(*sent, then=ending, pause=0.001)) as they:
        answer = await they.stream()

    assert last_error(answer, b"".join(sent)) == "upstream_reset"


async def test_b8_a_stream_that_breaks_inside_an_event_ends_it_first() -> None:
    async with meeting(Streams(*[WORD] * 9, WORD[:20], then="reset")) as they:
        answer = await they.stream()

    assert last_error(answer, WORD * 9 + WORD[:20]) == "upstream_reset"
    assert answer.body.startswith(WORD * 9 + WORD[:20] + b"\n\n")


async def test_b13_every_piece_begins_the_wait_for_the_next() -> None:
    """A stream may last longer than the idle timeout, which cuts it off when it falls silent."""
    async with meeting(Streams(*[WORD] * 60, then="stay"), upstream=QUICK) as they:
        watch = Stopwatch()
        answer = await they.stream()
        at_least, at_most = watch.wall(), watch.own()

    assert last_error(answer, WORD * 60) == "upstream_idle_timeout"
    assert at_least > 0.9
    assert at_most < 3


async def test_b14_pieces_of_other_answers_pass_while_their_task_sleeps() -> None:
    async def behave(_: Received, line: Line) -> None:
        await line.head(200, "content-type: audio/x", "transfer-encoding: chunked")
        for _number in range(100):
            await line.chunk(b"ab")
            await asyncio.sleep(0.001)
        await line.chunk(b"")

    request = b"POST /v1/audio/speech HTTP/1.1\r\nhost: p\r\ncontent-type: application/json\r\n"
    async with meeting(polite) as they:
        they.model.behaviour = behave
        before = tasks_woken()
        await they.client.send(request + b"content-length: 2\r\n\r\n{}")
        answer = await they.client.answer()

        assert answer.body == b"ab" * 100
        assert tasks_woken() - before < 10


async def test_b24_trailers_of_a_relayed_stream_are_dropped() -> None:
    async def behave(_: Received, line: Line) -> None:
        await begin_stream(line)
        for piece in story():
            await line.chunk(piece)
            await asyncio.sleep(0.005)
        await line.send(b"0\r\nx-trailer: yes\r\n\r\n")

    async with meeting(behave) as they:
        first, second = await they.stream(), await they.stream()

        assert first.body == second.body == b"".join(story())
        assert they.model.connections <= 2
