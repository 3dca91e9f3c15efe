"""F18: what is small on the wire and great inside, or cheap to send and dear to read."""

import asyncio
import gzip
import sys
import tracemalloc
import zlib
from importlib import import_module
from time import thread_time

import pytest

from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.chat.body.request import read_request
from chat_proxy.errors import BadRequest, InvalidContentEncoding
from chat_proxy.routes.front.decode_body import decode
from tests.faults.security.patterns import Used, patterns_in_use
from tests.support.fake_model import Line, Received, fake_model, polite
from tests.support.live import chat_body, chat_request, eventually, raw_client, running_proxy
from tests.support.meeting import meeting

pytestmark = pytest.mark.anyio

zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")

MEGABYTE = 2**20
KILOBYTE_SECONDS = 0.001
TRIES = 40
"""What a pattern may take for the worst kilobyte: a linear one takes half, a square one eight."""
BOUNDED = {
    "chat_proxy.config.environment._PASSWORD": "the operator's own settings",
    "chat_proxy.config.environment._PASSWORD_IN_QUERY": "the operator's own settings",
}


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
async def test_f18_a_compressed_request_is_decoded_up_to_the_limit(encoding: str) -> None:
    """F18: a hundred megabytes in a hundred kilobytes never unfold."""
    limit = 4 * MEGABYTE
    body = chat_body(user="x" * 100 * MEGABYTE)
    bomb = zstd.compress(body) if encoding == "zstd" else gzip.compress(body)
    del body
    async with meeting(polite, limits={"max_body_bytes": limit}) as they:
        tracemalloc.start()
        await they.client.send(chat_request(bomb, f"content-encoding: {encoding}"))
        answer = await they.client.answer()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        await eventually(lambda: not they.proxy.services.admission.held_bytes)

    assert answer.status == 413
    assert answer.error["code"] == "request_too_large"
    assert they.chats == 0
    assert peak < 4 * limit


async def test_f18_decoded_bodies_count_among_all_bytes_in_flight() -> None:
    """F18: many small bombs at once are refused like many large bodies."""
    limits = {"max_body_bytes": 4 * MEGABYTE, "max_inflight_bytes": 8 * MEGABYTE}
    bomb = gzip.compress(chat_body(user="x" * 3 * MEGABYTE))
    may_answer = asyncio.Event()

    async def slow(received: Received, line: Line) -> None:
        await may_answer.wait()
        await polite(received, line)

    async with (
        fake_model(slow) as model,
        running_proxy(model.url, limits=limits) as proxy,
        raw_client(proxy) as first,
        raw_client(proxy) as second,
    ):
        await first.send(chat_request(bomb, "content-encoding: gzip"))
        await eventually(lambda: any(it.method == "POST" for it in model.requests))
        await second.send(chat_request(bomb, "content-encoding: gzip"))
        refused = await second.answer()
        may_answer.set()
        answered = await first.answer()

    assert (refused.status, answered.status) == (503, 200)


def test_f18_a_zstd_body_cannot_ask_for_a_large_window() -> None:
    """F18: 128 MB for a body of some bytes."""
    options = {zstd.CompressionParameter.window_log: 27}
    body = zstd.compress(chat_body(user="x" * 200 * MEGABYTE), options=options)

    with pytest.raises(InvalidContentEncoding):
        asyncio.run(decode(body, b"zstd", lambda _: None))


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_f18_a_compressed_answer_is_not_unfolded(encoding: str) -> None:
    """F18: it was not asked for; what comes through is no longer than what came in."""
    bomb = zlib.compress(b" " * 16 * MEGABYTE)

    async def explosive(_: Received, line: Line) -> None:
        kind = ("content-type: application/json", f"content-encoding: {encoding}")
        await line.head(200, *kind, f"content-length: {len(bomb)}")
        await line.send(bomb)

    async with meeting(explosive) as they:
        tracemalloc.start()
        answer = await they.ask()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert len(answer.body) <= len(bomb)
    assert peak < 10 * len(bomb) + MEGABYTE


LIMITS = RequestLimits(64, 500_000, 10_000, 16)
JSON_BOMBS = {
    "deep lists": b"[" * MEGABYTE,
    "deep objects": b'{"a":' * (MEGABYTE // 5),
    "deep inside messages": b'{"messages":' + b"[" * MEGABYTE,
    "many empty lists": b'{"messages":[' + b"[]," * (MEGABYTE // 3) + b"[]]}",
    "many numbers": b'{"messages":[' + b"1," * (MEGABYTE // 2) + b"1]}",
    "a long number": b'{"messages":[],"n":' + b"9" * MEGABYTE + b"}",
    "a long fraction": b'{"messages":[],"n":1.' + b"9" * MEGABYTE + b"e999999}",
    "many escapes": b'{"messages":[],"x":"' + rb"\u0061" * (MEGABYTE // 6) + b'"}',
    "many backslashes": b'{"messages":[],"x":"' + b"\\\\" * (MEGABYTE // 2) + b'"}',
    "open quotes": b'{"messages":[],"x":"' + b'\\"' * (MEGABYTE // 2),
    "the same key": b"{" + b'"model":"x",' * (MEGABYTE // 12) + b'"messages":[]}',
    "blanks": b" " * MEGABYTE + b"{}",
}


@pytest.mark.parametrize("body", JSON_BOMBS.values(), ids=JSON_BOMBS)
def test_f18_json_made_to_hurt_costs_no_more_than_its_length(body: bytes) -> None:
    """F18: 50 ms of the processor for a megabyte, best of three.

    In memory 16 times its size: the parser sets 12 times aside, of which it touches what it needs.
    """
    seconds = min(time_to_read(body) for _ in range(3))
    tracemalloc.start()
    time_to_read(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert seconds <= 0.05
    assert peak <= 16 * len(body)


def time_to_read(body: bytes) -> float:
    """Return the processor time for reading a request, or for refusing it."""
    start = thread_time()
    try:
        read_request(body, LIMITS)
    except BadRequest:
        return thread_time() - start
    return thread_time() - start


def test_f18_no_pattern_of_ours_takes_long_over_any_string() -> None:
    """F18: each as it is used, against its own words and common signs in long rows."""
    found = {(it.name, it.pattern, it.method): it for it in patterns_in_use()}
    slow = [it for it in found.values() if it.name not in BOUNDED and is_slow(it)]

    assert len(found) > 100
    assert set(BOUNDED) <= {it.name for it in found.values()}
    assert [(it.name, it.pattern.pattern, it.method) for it in slow] == []


def is_slow(used: Used) -> bool:
    """Tell whether some kilobyte takes too long, looked at again where it seems so."""
    for text in used.hurting(1_000):
        if used.seconds(text) > KILOBYTE_SECONDS and all(
            used.seconds(text) > KILOBYTE_SECONDS for _ in range(TRIES)
        ):
            return True
    return False
