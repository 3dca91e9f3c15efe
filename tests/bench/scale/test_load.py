import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import orjson
import pytest

from bench.scale import upstream
from bench.scale.load import Outcome, run
from bench.scale.upstream import CHATS, SUMMARIES, CountingCaller
from bench.traffic.payloads import TURNS, GrowingChats

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def model(counts: Counter[str]) -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: CountingCaller(counts, 32_768), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_every_conversation_is_sent_to_its_end_over_all_targets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upstream, "SECONDS_TO_ANSWER", 0.001)
    one: Counter[str] = Counter()
    other: Counter[str] = Counter()

    async with model(one) as first, model(other) as second:
        outcome = await run([first, second], chats=2, rounds=1)

    assert outcome.requests == 2 * TURNS
    assert outcome.errors == {}
    assert one[CHATS] + other[CHATS] == 2 * TURNS
    assert min(one[CHATS], other[CHATS]) >= TURNS // 2
    assert outcome.seconds > 0 < outcome.p50_ms


async def test_summaries_are_counted_apart_and_answered_with_sections() -> None:
    counts: Counter[str] = Counter()
    body = GrowingChats(1).body(0, 1)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: m\r\nx-chat-proxy-purpose: summary\r\n"

    async with model(counts) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + b"content-length: %d\r\n\r\n%s" % (len(body), body))
        answer = await reader.readuntil(b"[DONE]\n\n")
        writer.write(b"GET /counts HTTP/1.1\r\nhost: m\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        told = orjson.loads(await reader.readuntil(b"}"))
        writer.write(b"GET /v1/models HTTP/1.1\r\nhost: m\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        listed = orjson.loads(await reader.readuntil(b"]}"))
        writer.close()

    assert b"## Critical Context" in answer
    assert b'"cached_tokens":' in answer
    assert told == {SUMMARIES: 1} == counts
    assert listed["data"][0]["max_model_len"] == 32_768


async def test_a_refusal_is_an_error() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(b"HTTP/1.1 429 no\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    outcome = Outcome()
    async with server:
        outcome = await run([server.sockets[0].getsockname()[1]], chats=1, rounds=1)

    assert outcome.errors == {"status 429, compaction ": TURNS}
