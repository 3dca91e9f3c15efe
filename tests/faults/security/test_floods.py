"""F19: one tenant that asks for more than its share is held back; the others are served."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.faults.security.tenants import ALICE, BOB, bearer
from tests.journeys.summaries.talking import (
    SYSTEM,
    WINDOW,
    Talk,
    body_of,
    label,
    post,
    talking,
    turns,
)
from tests.support.fake_model import Line, Received, fake_model, on_chat, polite
from tests.support.live import Proxy, chat_body, eventually, http_client, raw_client, running_proxy
from tests.support.summary_model import SummaryModel, once_open
from tests.unit.chat.shapes import Fields, user

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
AUTHORIZATION = "authorization: Bearer "
MOST = 8
FLOOD = 100


@asynccontextmanager
async def flooded(gate: asyncio.Event) -> AsyncIterator[tuple[Proxy, list[httpx.Response]]]:
    """A proxy that one tenant floods; what is refused comes back at once, the rest hangs."""

    async def slow_for_alice(received: Received, line: Line) -> None:
        if received.header("authorization") == f"Bearer {ALICE}":
            await gate.wait()
        await polite(received, line)

    async with (
        fake_model(on_chat(slow_for_alice)) as model,
        running_proxy(model.url, limits={"tenant_in_flight": MOST}) as proxy,
        http_client(proxy, headers=bearer(ALICE), limits=httpx.Limits()) as alice,
    ):
        answers: list[httpx.Response] = []

        async def ask() -> None:
            answers.append(await alice.post(CHAT, content=chat_body()))

        async with asyncio.TaskGroup() as group:
            for _ in range(FLOOD):
                group.create_task(ask())
            await eventually(lambda: len(answers) == FLOOD - MOST)
            yield proxy, answers
            gate.set()


async def test_f19_a_tenant_gets_so_many_answers_at_once_and_no_more() -> None:
    """F19: the rest is told so in OpenAI's shape, and when to come again."""
    async with flooded(asyncio.Event()) as (proxy, answers):
        refused = list(answers)
        async with http_client(proxy, headers=bearer(BOB)) as bob:
            other = await bob.post(CHAT, content=chat_body())

    assert {answer.status_code for answer in refused} == {429}
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    assert refused[0].headers["x-chat-proxy-error"] == "rate_limit_exceeded"
    assert refused[0].json()["error"]["type"] == "rate_limit_error"
    assert other.status_code == 200
    assert [it.status_code for it in answers[len(refused) :]] == [200] * MOST


async def test_f19_when_answers_have_ended_there_is_room_again() -> None:
    """F19: also after clients that left, and errors."""
    async with (
        fake_model(on_chat(polite)) as model,
        running_proxy(model.url, limits={"tenant_in_flight": 1}) as proxy,
        http_client(proxy, headers=bearer(ALICE)) as alice,
    ):
        for content in (b"no json", chat_body(), chat_body(stream=True), b"{}", chat_body()):
            assert (await alice.post(CHAT, content=content)).status_code != 429
        assert (await alice.get("/v1/models")).status_code == 200
        async with raw_client(proxy) as leaving:
            await leaving.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n")
            await leaving.send(f"{AUTHORIZATION}{ALICE}\r\ncontent-length: 9\r\n\r\n".encode())
            await eventually(lambda: proxy.services.drain._running)
        await eventually(lambda: not proxy.services.drain._running)
        assert (await alice.get("/v1/models")).status_code == 200


@pytest.mark.parametrize(("most", "is_full"), [(MOST, False), (0, True)])
async def test_f19_a_flood_leaves_room_at_the_model_for_others(most: int, is_full: bool) -> None:
    """F19: of a model's ten places a tenant gets its eight; without the limit it gets them all."""
    places, gate, found_full = asyncio.Semaphore(10), asyncio.Event(), list[bool]()

    async def crowded(received: Received, line: Line) -> None:
        if received.header("authorization") == f"Bearer {BOB}":
            found_full.append(places.locked())
        else:
            async with places:
                await gate.wait()
        await polite(received, line)

    async with (
        fake_model(on_chat(crowded)) as model,
        running_proxy(model.url, limits={"tenant_in_flight": most}) as proxy,
        http_client(proxy, headers=bearer(ALICE), limits=httpx.Limits()) as alice,
        http_client(proxy, headers=bearer(BOB)) as bob,
    ):
        flood = [asyncio.create_task(alice.post(CHAT, content=chat_body())) for _ in range(40)]
        chats = most or len(flood)
        await eventually(lambda: sum(r.method == "POST" for r in model.requests) == chats)
        for _ in range(5):
            assert (await bob.post(CHAT, content=chat_body())).status_code == 200
        gate.set()
        await asyncio.gather(*flood)

    assert found_full == [is_full] * 5


async def test_f19_a_tenant_whose_summary_tokens_are_used_up_goes_on_without() -> None:
    """F19: it fails open, costs no side-query, and touches no other tenant's."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain, summary={"tenant_tokens_per_hour": 4_000}) as talk:
        first = await labels(talk, ALICE, 3)
        asked = len(brain.summaries)
        other = await labels(talk, BOB, 1)
        failed = talk.proxy.services.metrics.render().decode()

    assert first == ["built", "failed-open", "failed-open"]
    assert asked == 1
    assert other == ["built"]
    assert 'chat_proxy_summaries_fail_total{reason="tenant_budget"} 2.0' in failed


async def labels(talk: Talk, key: str, count: int) -> list[str]:
    """Send so many different long chats; return what became of them."""
    asked = [await talk.ask(another_chat(number), AUTHORIZATION + key) for number in range(count)]
    return [label(it) for it in asked]


def another_chat(number: int) -> list[Fields]:
    """Return a conversation over the trigger, with no message of another's."""
    return [SYSTEM, *turns(14, first=100 * number), user("And now?")]


async def test_f19_in_the_line_for_summaries_tenants_take_turns() -> None:
    """F19: who asks for many does not put them all before another's first."""
    gate = asyncio.Event()
    brain = SummaryModel(once_open(gate), window=WINDOW)
    async with talking(brain, summary={"concurrency": 1}) as talk:
        many = [asyncio.create_task(ask_alone(talk, ALICE, n)) for n in range(5)]
        await eventually(lambda: len(brain.summaries) == 1)
        await eventually(
            lambda: len(talk.proxy.services.compaction.summaries.jobs._running) == 5, 10
        )
        one = asyncio.create_task(ask_alone(talk, BOB, 9))
        await eventually(
            lambda: len(talk.proxy.services.compaction.summaries.jobs._running) == 6, 10
        )
        gate.set()
        await asyncio.gather(one, *many)

    asked_by = [question.received.header("authorization") for question in brain.summaries]
    assert asked_by.index(f"Bearer {BOB}") <= 2
    assert len(asked_by) == 6


async def ask_alone(talk: Talk, key: str, number: int) -> None:
    """Send a long chat over a connection of its own."""
    async with raw_client(talk.proxy) as line:
        answer = await post(line, body_of(another_chat(number)), AUTHORIZATION + key)
    assert answer.status == 200


async def test_f19_a_tiny_request_buys_no_side_query() -> None:
    """F19: what is asked for a summary is what the client sent itself."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk, http_client(talk.proxy) as client:
        for words in ("/compact", "/compact " + "write a million words " * 20):
            body = {"model": "fake", "messages": [{"role": "user", "content": words}]}
            assert (await client.post(CHAT, json=body)).status_code == 200
        await client.post("/v1/chat/compact", json={**body, "instruction": "x" * 1_000})

    assert brain.summaries == []
