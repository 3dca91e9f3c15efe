"""Group B of the faults: an upstream that misbehaves, on real sockets."""

import asyncio
import gzip
import json
import re
import resource
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.fake_model import (
    COMPLETION,
    DONE,
    Line,
    Received,
    answer_json,
    begin_stream,
    delta,
    event,
    story,
)
from tests.support.live import (
    RawAnswer,
    chat_body,
    chat_request,
    eventually,
    raw_client,
    running_proxy,
)
from tests.support.meeting import Stage, black_hole, common_stage, cut, meeting

pytestmark = pytest.mark.anyio

WORD = delta("word ")
END = delta(finish_reason="stop")
QUICK = {"first_byte_timeout_seconds": 0.3, "idle_timeout_seconds": 0.3}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def stage() -> AsyncIterator[Stage]:
    async with common_stage() as stage:
        yield stage


def is_error(answer: RawAnswer, status: int, code: str) -> bool:
    """Tell whether an answer is ours, with this status and code, in all of its places."""
    return (answer.status, answer.error["code"], answer.headers["x-chat-proxy-error"]) == (
        status,
        code,
        code,
    )


def last_error(answer: RawAnswer, before: bytes) -> str:
    """Check that a stream is what came before, one error frame and `[DONE]`; return its code."""
    assert answer.status == 200
    assert answer.body.startswith(before)
    frame = answer.body.removeprefix(before)
    found = re.fullmatch(rb"(?:\n\n)?data: (\{.*\})\n\ndata: \[DONE\]\n\n", frame)
    assert found, frame
    return str(json.loads(found[1])["error"]["code"])


class Says:
    """Answers every chat with the same bytes, then closes, resets, or stays."""

    def __init__(self, *pieces: bytes, then: str = "") -> None:
        self._pieces = pieces
        self._then = then

    async def __call__(self, _: Received, line: Line) -> None:
        for piece in self._pieces:
            await line.send(piece)
            await asyncio.sleep(0.01)
        if self._then == "reset":
            cut(line)
        elif self._then == "close":
            line.writer.close()
        elif self._then == "stay":
            await line.until_closed()


def whole(status: str, body: bytes, *headers: str) -> bytes:
    """An answer of known length."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


class Streams:
    """Streams these pieces in chunks, then ends the stream, closes, resets, or stays."""

    def __init__(self, *pieces: bytes, then: str = "end", pause: float = 0.01) -> None:
        self._pieces = pieces
        self._then = then
        self._pause = pause

    async def __call__(self, _: Received, line: Line) -> None:
        await begin_stream(line)
        for piece in self._pieces:
            await line.chunk(piece)
            await asyncio.sleep(self._pause)
        if self._then == "end":
            await line.chunk(b"")
        elif self._then == "close":
            line.writer.close()
        elif self._then == "reset":
            cut(line)
        else:
            await line.until_closed()


# Connecting


async def test_a_refused_connection_is_told_at_once() -> None:
    """B1."""
    async with running_proxy("http://127.0.0.1:1/v1") as proxy, raw_client(proxy) as client:
        start = time.perf_counter()
        await client.send(chat_request())
        answer = await client.answer()

    assert is_error(answer, 502, "upstream_connect_error")
    assert time.perf_counter() - start < 0.5


async def test_a_black_hole_is_given_up_at_the_limit() -> None:
    """B2."""
    with black_hole() as url:
        limits = {"connect_timeout_seconds": 0.4}
        async with running_proxy(url, upstream=limits) as proxy, raw_client(proxy) as client:
            start = time.perf_counter()
            await client.send(chat_request())
            answer = await client.answer()
            seconds = time.perf_counter() - start

    assert is_error(answer, 504, "upstream_connect_timeout")
    assert 0.35 < seconds < 0.9


async def test_an_unknown_name_is_told_and_blocks_nobody() -> None:
    """B3."""
    async with running_proxy("http://model.invalid/v1") as proxy, raw_client(proxy) as client:
        await client.send(chat_request())
        asking = asyncio.create_task(client.answer())
        longest_lag = 0.0
        while not asking.done():
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            longest_lag = max(longest_lag, time.perf_counter() - before - 0.005)
        answer = asking.result()

    assert is_error(answer, 502, "upstream_dns_error")
    assert longest_lag < 0.2


# Answers that break


async def test_a_reset_in_the_headers_is_told_and_not_sent_again(stage: Stage) -> None:
    """B6: it may have been billed."""
    async with stage(Says(b"HTTP/1.1 200 OK\r\ncontent-", then="reset")) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_reset")
    assert they.chats == 1


@pytest.mark.parametrize("ending", ["reset", "close"])
async def test_a_connection_broken_before_any_byte_is_not_tried_again_when_fresh(
    stage: Stage,
    ending: str,
) -> None:
    """B6."""
    async with stage(Says(then=ending)) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_reset")
    assert they.chats == 1


@pytest.mark.parametrize("ending", ["reset", "close"])
async def test_half_an_answer_is_never_a_short_one(stage: Stage, ending: str) -> None:
    """B7, B26: a length that does not hold."""
    half = whole("200 OK", json.dumps(COMPLETION).encode())[:-10]
    async with stage(Says(half, then=ending)) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_reset")


async def test_a_reset_is_no_end_of_an_answer_without_length(stage: Stage) -> None:
    """B7, B23: the bytes look whole, the connection says they are not."""
    body = json.dumps(COMPLETION).encode()
    head = b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n"
    async with stage(Says(head, body, then="reset")) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_reset")


async def test_a_reset_stream_keeps_every_byte_and_ends_with_an_error(stage: Stage) -> None:
    """B8."""
    async with stage(Streams(WORD, WORD, then="reset")) as they:
        answer = await they.stream()

    assert last_error(answer, WORD * 2) == "upstream_reset"


@pytest.mark.parametrize("ending", ["close", "reset"])
async def test_data_that_arrive_together_with_the_end_are_not_lost(
    stage: Stage, ending: str
) -> None:
    """B8: readers that see the error first would drop what came before it."""
    async with stage(Streams(WORD, *[WORD] * 20, then=ending, pause=0)) as they:
        answer = await they.stream()

    assert last_error(answer, WORD * 21) == "upstream_reset"


async def test_an_error_stands_in_an_event_of_its_own(stage: Stage) -> None:
    """B8: behind half a line, and behind a line whose event is still open."""
    for half in (b'data: {"choi', b'data: {"choices":[]}\n', b'data: {"choices":[]}\r\n'):
        async with stage(Streams(WORD, half, then="reset")) as they:
            answer = await they.stream()

        assert last_error(answer, WORD + half) == "upstream_reset"
        assert answer.body.removeprefix(WORD + half).startswith(b"\n\n")


@pytest.mark.parametrize("rubbish", [b"zz\r\nrubbish\r\n", b"5\r\nabcdefgh\r\n"])
async def test_broken_framing_in_mid_stream_is_told_at_once(stage: Stage, rubbish: bytes) -> None:
    """B8: not only when the idle limit is over."""

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line)
        await line.chunk(WORD)
        await asyncio.sleep(0.02)
        await line.send(rubbish)
        await line.until_closed()

    async with stage(behave) as they:
        start = time.perf_counter()
        answer = await they.stream()
        seconds = time.perf_counter() - start

    before = WORD + b"abcde" if b"abcde" in rubbish else WORD
    assert last_error(answer, before) == "upstream_invalid_response"
    assert seconds < 1


async def test_a_stream_that_just_ends_is_truncated(stage: Stage) -> None:
    """B9."""
    async with stage(Streams(WORD)) as they:
        answer = await they.stream()

        assert last_error(answer, WORD) == "upstream_truncated"
        assert they.figure("chat_proxy_stream_truncated_total") == 1


async def test_a_stream_with_a_finish_reason_needs_no_done(stage: Stage) -> None:
    """B9."""
    async with stage(Streams(WORD, END)) as they:
        answer = await they.stream()

    assert answer.body == WORD + END


async def test_done_needs_no_finish_reason(stage: Stage) -> None:
    """B10."""
    async with stage(Streams(WORD, DONE)) as they:
        answer = await they.stream()

    assert answer.body == WORD + DONE


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("tail", [b"", DONE, WORD, b"rubbish"])
async def test_nothing_follows_done(stage: Stage, line_end: bytes, tail: bytes) -> None:
    """B10."""
    done = b"data: [DONE]" + line_end * 2
    async with stage(Streams(WORD, done + tail)) as they:
        together = await they.stream()
    async with stage(Streams(WORD, done, *([tail] if tail else []))) as they:
        apart = await they.stream()

    assert together.body == apart.body == WORD + done


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
async def test_done_is_understood_wherever_it_is_split(stage: Stage, line_end: bytes) -> None:
    """B10."""
    done = b"data: [DONE]" + line_end * 2
    async with stage(Streams()) as they:
        for place in range(1, len(done)):
            streams = Streams(WORD, done[:place], done[place:] + DONE, pause=0.002)
            they.model.behaviour = streams
            answer = await they.stream()
            assert answer.body == WORD + done


@pytest.mark.parametrize("ending", ["stay", "reset", "close"])
async def test_what_happens_behind_done_is_nobody_s_problem(ending: str) -> None:
    """B10: the client has all it was to get, and is not kept waiting for more."""
    async with meeting(Streams(*story(), then=ending)) as they:
        start = time.perf_counter()
        answer = await they.stream()
        seconds = time.perf_counter() - start

        assert answer.body == b"".join(story())
        assert seconds < 1
        assert they.answered(200) == 1
        await eventually(lambda: they.model.open_connections <= 1)


async def test_a_connection_serves_again_after_a_stream() -> None:
    async with meeting(Streams(*story())) as they:
        for _ in range(5):
            await they.stream()

    assert they.model.connections <= 2  # one of them asked for the models


# Errors in the stream


async def test_an_error_in_the_stream_passes_and_counts(stage: Stage) -> None:
    """B11."""
    error = event({"error": {"message": "engine died", "code": 500}})
    async with stage(Streams(WORD, error)) as they:
        answer = await they.stream()

        assert answer.body == WORD + error
        assert they.answered(200, "upstream_stream_error") == 1


@pytest.mark.parametrize(
    ("code", "status"),
    [(400, 400), ("429", 429), (503, 503), (None, 500), (200, 500), (True, 500), ("bad", 500)],
)
async def test_an_error_as_the_first_event_becomes_a_real_status(
    stage: Stage, code: Any, status: int
) -> None:
    """B11."""
    document = {"error": {"message": "no", "type": "x", "param": None, "code": code}}
    async with stage(Streams(event(document), DONE)) as they:
        answer = await they.stream()

    assert answer.status == status
    assert json.loads(answer.body) == document
    assert answer.headers["content-type"] == "application/json"
    assert "x-chat-proxy-error" not in answer.headers


async def test_an_error_as_the_first_event_may_come_in_pieces(stage: Stage) -> None:
    """B11."""
    error = event({"error": {"message": "no", "code": 400}})
    async with stage(Streams(error[:20], error[20:])) as they:
        answer = await they.stream()

    assert answer.status == 400


@pytest.mark.parametrize("line", [b'data: {"error"}\n\n', b'data: {"error": "half'])
async def test_an_error_that_cannot_be_read_passes_as_it_is(stage: Stage, line: bytes) -> None:
    """B11."""
    async with stage(Streams(line)) as they:
        answer = await they.stream()

    assert (answer.status, answer.body) == (200, line)


async def test_an_error_that_stops_halfway_is_held_no_longer_than_a_ping() -> None:
    """B11, B12."""
    half = b'data: {"error": {"mess'
    async with meeting(
        Streams(half, then="stay"), upstream=QUICK, server={"ping_seconds": 0.05}
    ) as they:
        answer = await they.stream()

    assert last_error(answer, half) == "upstream_idle_timeout"


# Silence


async def test_a_silent_stream_pings_and_then_answers() -> None:
    """B12."""

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line)
        await asyncio.sleep(0.25)
        for piece in story():
            await line.chunk(piece)
        await line.chunk(b"")

    async with meeting(behave, server={"ping_seconds": 0.1}) as they:
        answer = await they.stream()

    assert answer.body == b": ping\n\n" * 2 + b"".join(story())


async def test_pings_can_be_turned_off() -> None:
    """B12."""
    async with meeting(Streams(then="stay"), upstream=QUICK, server={"ping_seconds": 0}) as they:
        answer = await they.stream()

    assert is_error(answer, 504, "upstream_first_byte_timeout")


async def test_silence_before_the_headers_is_a_504() -> None:
    """B12; the limit also counts against the upstream."""
    async with meeting(Says(then="stay"), upstream=QUICK) as they:
        answer = await they.stream()

        assert is_error(answer, 504, "upstream_first_byte_timeout")
        await eventually(lambda: they.model.open_connections <= 1)


async def test_silence_behind_the_headers_is_an_error_frame() -> None:
    """B12."""
    async with meeting(Streams(then="stay"), upstream=QUICK, server={"ping_seconds": 0.1}) as they:
        answer = await they.stream()

    pings = answer.body[: answer.body.index(b"data:")]
    assert set(pings.split(b"\n\n")) == {b": ping", b""}
    assert last_error(answer, pings) == "upstream_first_byte_timeout"


async def test_a_stream_that_ends_behind_a_ping_is_truncated() -> None:
    """B9, B12."""

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line)
        await asyncio.sleep(0.15)
        await line.chunk(b"")

    async with meeting(behave, server={"ping_seconds": 0.1}) as they:
        answer = await they.stream()

    assert last_error(answer, b": ping\n\n") == "upstream_truncated"


async def test_silence_in_mid_stream_is_an_error_frame() -> None:
    """B13."""
    async with meeting(Streams(WORD, then="stay"), upstream=QUICK) as they:
        answer = await they.stream()

        assert last_error(answer, WORD) == "upstream_idle_timeout"
        assert await eventually(lambda: they.model.open_connections <= 1) < 0.25


async def test_silence_in_mid_answer_is_a_504() -> None:
    """B13."""
    half = whole("200 OK", b'{"id":1}')[:-3]
    async with meeting(Says(half, then="stay"), upstream=QUICK) as they:
        answer = await they.ask()

    assert is_error(answer, 504, "upstream_idle_timeout")


async def test_an_answer_without_end_ends_at_the_total_limit() -> None:
    """B14."""
    async with meeting(
        Streams(*[WORD] * 100, pause=0.02), upstream={"total_timeout_seconds": 0.3}
    ) as they:
        answer = await they.stream()

    words = answer.body.count(WORD)
    assert 3 < words < 20
    assert last_error(answer, WORD * words) == "upstream_total_timeout"


async def test_each_dripped_byte_arrives_at_once(stage: Stage) -> None:
    """B14."""
    bytes_sent = asyncio.Queue[float]()

    async def drip(received: Received, line: Line) -> None:
        await begin_stream(line)
        for byte in WORD[:30]:
            bytes_sent.put_nowait(time.perf_counter())
            await line.chunk(bytes([byte]))
            await asyncio.sleep(0.005)
        await line.until_closed()

    async with stage(drip) as they:
        await they.client.send(chat_request(chat_body(stream=True)))
        await they.client.reader.readuntil(b"\r\n\r\n")
        delays = []
        for byte in WORD[:30]:
            assert await they.client.reader.readexactly(6) == b"1\r\n%c\r\n" % byte
            delays.append(time.perf_counter() - await bytes_sent.get())

    assert sorted(delays)[len(delays) // 2] < 0.05


# Forms of streams


async def test_any_form_of_event_stream_passes_byte_for_byte(stage: Stage) -> None:
    """B15."""
    odd = (
        b": a comment\r\n\r\nevent: x\nid: 7\nretry: 10\n"
        b'data:{"no":"space"}\n\ndata: several\ndata: lines\n\n\n\n'
        b'data: {"choices":[{"delta":{"content":"\xc3\xa4\xf0\x9f\x98\x80"}}]}\r\n\r\n\xff\xfe\n'
    )
    async with stage(Streams()) as they:
        for place in range(0, len(odd), 7):
            they.model.behaviour = Streams(odd[:place], odd[place:], END, DONE, pause=0.002)
            if place == 0:
                they.model.behaviour = Streams(odd, END, DONE)
            answer = await they.stream()
            assert answer.body == odd + END + DONE


async def test_an_endless_line_passes_and_is_not_looked_at(stage: Stage) -> None:
    """B15: more than the tap looks at."""
    line = b'data: {"x":"' + b"y" * 5_000_000 + b'"}\n\n'
    async with stage(Streams(WORD, line, pause=0)) as they:
        answer = await they.stream()

        assert answer.body == WORD + line
        assert they.figure("chat_proxy_sse_tap_off_total") == 1


async def test_an_error_behind_an_endless_line_begins_a_new_event(stage: Stage) -> None:
    """B8, B15."""
    line = b'data: {"x":"' + b"y" * 2_000_000
    async with stage(Streams(WORD, line, then="reset", pause=0.1)) as they:
        answer = await they.stream()

    assert last_error(answer, WORD + line) == "upstream_reset"
    assert answer.body.removeprefix(WORD + line).startswith(b"\n\n")


# Refusals and odd answers


@pytest.mark.parametrize("retry_after", ["7", "Wed, 21 Oct 2026 07:28:00 GMT", None, "1000000000"])
async def test_a_429_passes_with_its_retry_after(stage: Stage, retry_after: str | None) -> None:
    """B16."""
    body = b'{"error" : {"message": "slow down"}}'
    headers = [f"retry-after: {retry_after}"] if retry_after else []
    async with stage(Says(whole("429 Too Many", body, *headers))) as they:
        answer = await they.ask()

        assert (answer.status, answer.body) == (429, body)
        assert answer.headers.get("retry-after") == retry_after
        assert they.chats == 1
        assert they.figure("chat_proxy_upstream_429_total") == 1


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 500, 501, 502, 503, 504, 529])
@pytest.mark.parametrize("streams", [True, False])
async def test_other_refusals_pass_byte_for_byte(stage: Stage, status: int, streams: bool) -> None:
    """B17."""
    body = b"<html>\n\xff broken \x00</html>"
    async with stage(Says(whole(f"{status} X", body, "content-type: text/html"))) as they:
        answer = await they.ask(stream=streams)

    assert (answer.status, answer.body) == (status, body)
    assert answer.headers["content-type"] == "text/html"
    assert "x-chat-proxy-error" not in answer.headers


@pytest.mark.parametrize(
    "body", [b"", b" ", b"{", b'{"a":1', b"<html></html>", b"null", b"[]", b'{"a":\xff}', b"{]}"]
)
async def test_a_success_that_is_no_completion_is_none(stage: Stage, body: bytes) -> None:
    """B19."""
    async with stage(Says(whole("200 OK", body, "content-type: application/json"))) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_invalid_response")


async def test_an_empty_stream_is_no_success(stage: Stage) -> None:
    """B19."""
    async with stage(Streams()) as they:
        answer = await they.stream()

    assert is_error(answer, 502, "upstream_invalid_response")


async def test_an_answer_of_the_other_kind_passes(stage: Stage) -> None:
    """B20: asked for a stream and got JSON, and the other way round."""
    body = json.dumps(COMPLETION).encode()
    json_answer = whole("200 OK", body, "content-type: application/json; charset=utf-8")
    async with stage(Says(json_answer)) as they:
        answer = await they.stream()
    async with stage(Streams(*story())) as they:
        streamed = await they.ask()

    assert answer.body == body
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert streamed.body == b"".join(story())
    assert streamed.headers["content-type"] == "text/event-stream"


@pytest.mark.parametrize("usage", [{"prompt_tokens": -5}, {"prompt_tokens": 10**30}, [], "x", None])
async def test_absurd_usage_spoils_neither_answer_nor_figures(stage: Stage, usage: Any) -> None:
    """E10: a counter refuses a negative amount."""
    async with stage(Streams()) as they:
        document = {**COMPLETION, "usage": usage}
        they.model.behaviour = Says(whole("200 OK", json.dumps(document).encode()))
        answer = await they.ask()
        they.model.behaviour = Streams(event(document), DONE)
        streamed = await they.stream()

        assert json.loads(answer.body) == document
        assert streamed.body == event(document) + DONE
        assert they.figure('chat_proxy_bytes_total{direction="in"}') > 0


# Large answers


def large_json(size: int) -> bytes:
    return b'{"x":"' + b"y" * (size - 8) + b'"}'


async def test_a_large_answer_is_poured_through(stage: Stage) -> None:
    """B21."""
    body = large_json(20_000_000)
    async with stage(Says(whole("200 OK", body))) as they:
        answer = await they.ask()

    assert answer.body == body


async def test_pouring_takes_no_more_memory_the_longer_it_lasts() -> None:
    """B21."""
    pieces = 120

    async def pour(received: Received, line: Line) -> None:
        await line.head(200, "content-type: application/json", "transfer-encoding: chunked")
        piece = b"y" * 1_000_000
        for _ in range(pieces):
            await line.chunk(piece)
        await line.chunk(b"")

    async with meeting(pour, limits={"max_answer_bytes": 10**9}) as they:
        await they.client.send(chat_request())
        size, peaks = 0, []
        while size < pieces * 1_000_000:
            data = await they.client.reader.read(1_000_000)
            size += len(data)
            if size > 40_000_000:
                peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

    assert peaks[-1] - peaks[0] < 10_000


async def test_an_answer_over_the_limit_breaks_the_connection() -> None:
    """B21: the answer has begun, so nobody may take it for whole."""
    body = large_json(12_000_000)
    async with meeting(
        Says(whole("200 OK", body)), limits={"max_answer_bytes": 10_000_000}
    ) as they:
        await they.client.send(chat_request())
        everything = await they.client.rest()

        assert b"200 OK" in everything
        assert len(everything) < 10_500_000
        assert not everything.endswith(b"0\r\n\r\n")
        await eventually(lambda: they.answered(200, "upstream_response_too_large") == 1)


async def test_an_answer_over_a_small_limit_is_a_502() -> None:
    """B21: nothing has been sent yet."""
    async with meeting(
        Says(whole("200 OK", large_json(200_000))), limits={"max_answer_bytes": 100_000}
    ) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_response_too_large")


async def test_a_reset_in_a_large_answer_breaks_the_connection(stage: Stage) -> None:
    """B7."""
    body = large_json(12_000_000)
    async with stage(Says(whole("200 OK", body)[:-1000], then="reset")) as they:
        await they.client.send(chat_request())
        everything = await they.client.rest()

    assert not everything.endswith(b"0\r\n\r\n")


# Framing and headers


async def test_an_encoded_answer_passes_raw_with_its_header(stage: Stage) -> None:
    """B22."""
    body = gzip.compress(json.dumps(COMPLETION).encode())
    encoded = whole("200 OK", body, "content-encoding: gzip", "content-type: application/json")
    async with stage(Says(encoded)) as they:
        answer = await they.ask()

    assert answer.body == body
    assert answer.headers["content-encoding"] == "gzip"
    assert {r.header("accept-encoding") for r in they.model.requests} == {"identity"}


async def test_an_encoded_stream_passes_raw(stage: Stage) -> None:
    """B22."""
    body = gzip.compress(b"".join(story()))

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line, "content-encoding: GZIP")
        await line.chunk(body[:20])
        await line.chunk(body[20:])
        await line.chunk(b"")

    async with stage(behave) as they:
        answer = await they.stream()

    assert answer.body == body


async def test_a_reset_in_an_encoded_stream_breaks_the_connection(stage: Stage) -> None:
    """B8, B22: no frame can be written into compressed bytes."""

    async def behave(received: Received, line: Line) -> None:
        await begin_stream(line, "content-encoding: gzip")
        await line.chunk(b"\x1f\x8b")
        await asyncio.sleep(0.02)
        cut(line)

    async with stage(behave) as they:
        await they.client.send(chat_request(chat_body(stream=True)))
        everything = await they.client.rest()

    assert everything.endswith(b"\x1f\x8b\r\n")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_an_answer_that_ends_with_its_connection_passes(stage: Stage, version: str) -> None:
    """B23."""
    body = json.dumps(COMPLETION).encode()
    head = f"HTTP/{version} 200 OK\r\ncontent-type: application/json\r\n\r\n".encode()
    async with stage(Says(head, body[:20], body[20:], then="close")) as they:
        answer = await they.ask()

    assert answer.body == body


@pytest.mark.parametrize(("events", "is_cut"), [(story(), False), (story()[:2], True)])
async def test_a_stream_that_ends_with_its_connection_needs_an_end_of_its_own(
    stage: Stage, events: list[bytes], is_cut: bool
) -> None:
    """B9, B23."""
    head = b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    async with stage(Says(head, *events, then="close")) as they:
        answer = await they.stream()

    if is_cut:
        assert last_error(answer, b"".join(events)) == "upstream_truncated"
    else:
        assert answer.body == b"".join(events)


async def test_interim_answers_and_trailers_are_dropped(stage: Stage) -> None:
    """B24."""
    body = json.dumps(COMPLETION).encode()
    interim = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
        b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    )
    final = (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n"
        b"%x\r\n%s\r\n0\r\nx-sum: 1\r\n\r\n" % (len(body), body)
    )
    async with stage(Says(interim, final)) as they:
        answer = await they.ask()
        again = await they.ask()

    assert answer.body == again.body == body
    assert not {"link", "trailer", "x-sum"} & set(answer.headers)


@pytest.mark.parametrize(
    "header",
    [
        "x-long: " + "y" * 40_000,
        "\r\n".join(f"x-{n}: " + "y" * 1_000 for n in range(60)),
        "\r\n".join(f"x-{n}: y" for n in range(500)),
        "x-huge: " + "y" * 1_000_000,
    ],
    ids=["one", "together", "many", "megabyte"],
)
async def test_headers_without_end_are_refused(stage: Stage, header: str) -> None:
    """B24."""
    async with stage(Says(whole("200 OK", b'{"a":1}', header))) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_invalid_response")


async def test_a_large_body_beside_its_headers_is_no_large_header(stage: Stage) -> None:
    """B24: what counts is the headers' own size."""
    body = large_json(100_000)
    async with stage(Says(whole("200 OK", body))) as they:
        answer = await they.ask()

    assert answer.body == body


@pytest.mark.parametrize(
    "header",
    [
        b"x-bad: a\rb",
        b"x-bad: a\0b",
        b"x bad: a",
        b"x-folded: a\r\n b",
        b"x-folded: a\n\tset-cookie: b",
        b"x-latin: \xe4\xff",
        b"x-empty:",
        b": nameless",
        b"x-split: a\nset-cookie: b",
    ],
)
async def test_an_absurd_header_is_dropped_refused_or_harmless(stage: Stage, header: bytes) -> None:
    """B24, F8: never a 500, never a header of the upstream's making."""
    says = Says(b"HTTP/1.1 200 OK\r\n" + header + b'\r\ncontent-length: 7\r\n\r\n{"a":1}')
    async with stage(says) as they:
        answer = await they.ask()

    assert answer.status in (200, 502)
    assert "set-cookie" not in answer.headers
    assert not any(set(value) & set("\r\n\0") for value in answer.headers.values())


@pytest.mark.parametrize(
    "answer_bytes",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x00\x01\x02\xff",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 99 X\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 600 X\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 999 X\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}}",
        b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\n{}",
        b"HTTP/2.0 200 OK\r\ncontent-length: 2\r\n\r\n{",
    ],
)
async def test_what_is_not_http_is_a_502(stage: Stage, answer_bytes: bytes) -> None:
    """B24."""
    async with stage(Says(answer_bytes, then="close")) as they:
        answer = await they.ask()

    assert answer.status == 502
    assert answer.error["code"] in ("upstream_invalid_response", "upstream_reset")


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
async def test_redirects_are_neither_followed_nor_passed_on(
    stage: Stage, status: int, path: str
) -> None:
    """B25."""
    there = whole(f"{status} X", b"", "location: http://127.0.0.1:1/secret")

    async def behave(received: Received, line: Line) -> None:
        await line.send(there)

    async with stage(behave) as they:
        they.model.behaviour = behave
        await they.client.send(chat_request().replace(b"/v1/chat/completions", path.encode()))
        answer = await they.client.answer()

    assert is_error(answer, 502, "upstream_redirect")
    assert "location" not in answer.headers
    assert b"secret" not in answer.body


@pytest.mark.parametrize("status", [204, 205, 304])
async def test_an_answer_without_a_body_is_none(stage: Stage, status: int) -> None:
    """B26."""
    head = f"HTTP/1.1 {status} X\r\n" + ("content-length: 0\r\n" if status == 205 else "")
    async with stage(Says(head.encode() + b"\r\n")) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_invalid_response")


async def test_more_bytes_than_announced_reach_nobody() -> None:
    """B26: neither this client nor the next one."""
    says = Says(whole("200 OK", b'{"a":1}') + whole("200 OK", b'{"stolen":1}'))
    async with meeting(says) as they:
        first = await they.ask()
        they.model.behaviour = Says(whole("200 OK", b'{"b":1}'))
        second = await they.ask()

    assert first.body == b'{"a":1}' or first.status == 502
    assert second.body == b'{"b":1}'


async def test_an_answer_nobody_asked_for_reaches_nobody() -> None:
    """B26: it arrives while the connection lies idle, and would be the next client's."""

    async def behave(received: Received, line: Line) -> None:
        await answer_json(line, {"a": 1})
        await asyncio.sleep(0.05)
        await answer_json(line, {"stolen": 1})

    async with meeting(behave) as they:
        await they.ask()
        await asyncio.sleep(0.1)
        they.model.behaviour = Says(whole("200 OK", b'{"b":1}'))
        second = await they.ask()

        assert second.body == b'{"b":1}'
        assert they.figure('chat_proxy_retry_total{reason="reused_conn"}') == 1
