"""Rows A17 to A19 and A22: clients that leave, by our server and by plain uvicorn."""

import asyncio

import pytest

from tests.faults.client.conftest import Serving
from tests.faults.faulty import AT_ONCE_SECONDS, Waiting, aborted, answered, chats, metric
from tests.journeys.summaries.talking import WINDOW, body_of, label, long_chat, post
from tests.support.clock import within
from tests.support.conversations import listening
from tests.support.fake_model import delta, fake_model, on_chat, polite
from tests.support.live import chat_body, chat_request, eventually, raw_client, running_proxy
from tests.support.summary_model import SummaryModel, good, once_open
from tests.support.wires.apis import ALL, Api

pytestmark = pytest.mark.anyio

TOKENS = 'chat_proxy_upstream_tokens_total{kind="%s"}'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n'


@ALL
async def test_a17_a_client_that_leaves_while_uploading_never_reaches_the_upstream(
    serving: Serving, api: Api
) -> None:
    with listening() as heard:
        async with fake_model(polite) as model, serving(model.url) as proxy:
            async with raw_client(proxy) as client:
                await client.send(api.http()[:-5])
                await eventually(lambda: proxy.services.admission.held_bytes > 0)
                client.leave()
            await eventually(lambda: metric(proxy, aborted("body")) == 1)

    [line] = heard.lines("request")
    assert (line["status"], line["code"], line["phase"]) == (499, "client_closed_request", "body")
    assert chats(model) == []
    assert proxy.services.admission.held_bytes == 0


@ALL
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a18_a_client_that_leaves_before_the_answer_frees_the_upstream(
    serving: Serving, stream: bool, api: Api
) -> None:
    waiting = Waiting()
    async with fake_model(on_chat(waiting)) as model, serving(model.url) as proxy:
        async with raw_client(proxy) as client:
            await client.send(api.http(api.body(stream=stream)))
            await eventually(lambda: waiting.asked)
            client.leave()
            seconds = await eventually(lambda: waiting.let_go)
        await eventually(lambda: metric(proxy, aborted("ttfb")) == 1)

    assert seconds < AT_ONCE_SECONDS
    assert metric(proxy, answered(499, "client_closed_request", api)) == 1
    assert proxy.services.admission.held_bytes == 0


async def test_a18_a_summary_that_another_waits_for_is_finished() -> None:
    gate = asyncio.Event()
    brain = SummaryModel(once_open(gate, good))
    budget = {"context_window": WINDOW, "prepare": 1}
    async with (
        within(20),
        fake_model(brain) as model,
        running_proxy(model.url, budget=budget, summary={"wait": "trigger"}) as proxy,
        raw_client(proxy) as leaving,
        raw_client(proxy) as staying,
    ):
        await leaving.send(chat_request(body_of(long_chat())))
        await eventually(lambda: brain.summaries)
        waiting = asyncio.create_task(post(staying, body_of(long_chat())))
        await eventually(lambda: metric(proxy, "chat_proxy_summaries_waits_total") == 2)
        leaving.leave()
        await eventually(lambda: metric(proxy, aborted("ttfb")) == 1)
        gate.set()
        answer = await waiting

    assert (answer.status, label(answer)) == (200, "built")
    assert len(brain.summaries) == 1


@ALL
async def test_a19_a_client_that_leaves_in_mid_stream_frees_the_upstream(
    serving: Serving, api: Api
) -> None:
    """What the upstream counted so far is not lost."""
    pieces = [*api.begins, api.words("one "), *([USAGE] if api.name == "chat" else [])]
    waiting = Waiting(*pieces)
    async with fake_model(on_chat(waiting)) as model, serving(model.url) as proxy:
        async with raw_client(proxy) as client:
            await client.send(api.http(api.body(stream=True)))
            await client.reader.readuntil(b'"usage"' if api.name == "chat" else b"one ")
            client.leave()
            seconds = await eventually(lambda: waiting.let_go)
        await eventually(lambda: metric(proxy, aborted("stream")) == 1)

    assert seconds < AT_ONCE_SECONDS
    known = {"chat": (7, 2), "messages": (11, 1), "responses": (0, 0)}[api.name]
    assert (metric(proxy, TOKENS % "prompt"), metric(proxy, TOKENS % "completion")) == known


async def test_a19_one_client_that_leaves_disturbs_no_other(serving: Serving) -> None:
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

        assert answer.status == 200
        assert not staying.reader.at_eof()


@ALL
@pytest.mark.parametrize("moment", ["at once", "before the answer", "in mid-stream"])
async def test_a22_a_client_that_closes_its_side_has_left(
    serving: Serving, moment: str, api: Api
) -> None:
    """Half a close is a close, always: a client that went looks just the same."""
    waiting = Waiting(*api.begins, api.words("one ")) if moment == "in mid-stream" else Waiting()
    async with (
        within(5),
        fake_model(on_chat(waiting)) as model,
        serving(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(api.http(api.body(stream=True)))
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

    assert all(end not in rest for end in api.ends)
    assert not rest.startswith(b"HTTP/1.1")
