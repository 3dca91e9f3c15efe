"""A request's trace, as a collector gets it from a running proxy."""

import asyncio
import json
from typing import Any

import pytest

from tests.journeys.summaries.troubles import SECRET_WORD, WINDOW, history
from tests.support.collector import Collector, Seen, collecting
from tests.support.conversations import listening
from tests.support.fake_model import Behaviour, FakeModel, Line, Received, fake_model, polite
from tests.support.figures import figure_in
from tests.support.live import Proxy, RawAnswer, eventually, raw_client, running_proxy
from tests.support.summary_model import SummaryModel, overflow
from tests.support.wires.apis import APIS, Api

pytestmark = pytest.mark.anyio

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
CONTEXT = (f"traceparent: 00-{TRACE}-{PARENT}-01", "tracestate: vendor=a:1,other=b")
KEY = "sk-very-secret-key"
WAITS = {"summary": {"wait": "trigger"}, "budget": {"context_window": WINDOW, "prepare": 1}}


async def traced(
    behaviour: Behaviour, request: bytes, spans: int, **sections: Any
) -> tuple[RawAnswer, Collector, FakeModel]:
    """Send a request through a proxy that exports its spans; wait until they have arrived."""
    async with collecting() as collector, fake_model(behaviour) as model:
        variables = collector.variables | sections.pop("variables", {})
        async with (
            running_proxy(model.url, variables, **sections) as proxy,
            raw_client(proxy) as client,
        ):
            await client.send(request)
            answer = await client.answer()
            await eventually(lambda: exported(proxy) == spans, 5)
            assert len(collector.spans) == spans
    return answer, collector, model


def exported(proxy: Proxy) -> float:
    page = proxy.services.metrics.render().decode()
    return figure_in(page, 'chat_proxy_spans_total{result="exported"}')


def the(spans: list[Seen]) -> Seen:
    (span,) = spans
    return span


def chats(model: FakeModel) -> list[Received]:
    return [request for request in model.requests if request.method == "POST"]


def context_of(received: Received) -> tuple[str, str]:
    """Return the trace and the span that a call names as its parent."""
    version, trace, span, flags = (received.header("traceparent") or "").split("-")
    assert (version, int(flags, 16) & 1) == ("00", 1)
    return trace, span


@pytest.mark.parametrize("api", APIS, ids=str)
async def test_a_request_is_a_server_span_with_a_client_span_below(api: Api) -> None:
    async def answering(received: Received, line: Line) -> None:
        await line.head(200, "content-type: application/json", f"content-length: {len(whole)}")
        await line.send(whole)

    whole = json.dumps(api.whole).encode()
    answer, collector, model = await traced(answering, api.http(), 2)

    assert answer.status == 200
    server, client = the(collector.of("server")), the(collector.of("client"))
    route = api.path.partition("?")[0]
    assert (server.name, server.parent_id) == (f"POST {route}", "")
    assert (client.trace_id, client.parent_id) == (server.trace_id, server.span_id)
    assert client.name == f"chat {api.request['model']}"
    for span in (server, client):
        assert span.attributes["gen_ai.operation.name"] == "chat"
        assert span.attributes["gen_ai.request.model"] == api.request["model"]
        provider = "anthropic" if api.name == "messages" else "openai"
        assert span.attributes["gen_ai.provider.name"] == provider
        assert span.attributes["gen_ai.usage.input_tokens"] > 0
        assert span.attributes["gen_ai.usage.output_tokens"] > 0
        assert span.attributes["http.response.status_code"] == 200
        assert not span.has_failed
    assert server.attributes["chat_proxy.wire"] == api.name
    assert server.attributes["chat_proxy.compaction"] == "none"
    assert server.attributes["chat_proxy.request_id"] == answer.headers["x-request-id"]
    assert server.attributes["chat_proxy.stages"] == []
    assert server.attributes["chat_proxy.checkpoint_reused"] is False
    assert client.attributes["server.port"] == model.port
    assert server.nanoseconds >= client.nanoseconds > 0
    assert server.resource["service.name"] == "chat-proxy"
    assert context_of(chats(model)[0]) == (client.trace_id, client.span_id)


async def test_the_clients_trace_context_reaches_the_upstream_with_our_span_as_parent() -> None:
    _, collector, model = await traced(polite, APIS[0].http(None, *CONTEXT), 2)

    server, client = the(collector.of("server")), the(collector.of("client"))
    assert (server.trace_id, server.parent_id) == (TRACE, PARENT)
    assert context_of(chats(model)[0]) == (TRACE, client.span_id)
    assert chats(model)[0].header("tracestate") == "vendor=a:1,other=b"


@pytest.mark.parametrize(
    "header",
    [
        "traceparent: nonsense",
        f"traceparent: 00-{'0' * 32}-{PARENT}-01",
        "traceparent: 00-\xff\xfe-1",
        "tracestate: " + "x" * 900,
    ],
)
async def test_a_broken_trace_context_begins_a_new_trace(header: str) -> None:
    answer, collector, _ = await traced(polite, APIS[0].http(None, header), 2)

    assert answer.status == 200
    assert the(collector.of("server")).parent_id == ""


async def test_a_summary_is_a_side_query_in_the_same_trace() -> None:
    brain = SummaryModel()
    body = json.dumps({"model": "fake", "messages": history(), "stream": True}).encode()
    request = APIS[0].http(body, f"authorization: Bearer {KEY}", *CONTEXT)

    answer, collector, _ = await traced(brain, request, 3, **WAITS)

    assert answer.headers["x-chat-proxy-compaction"] == "built"
    server = the(collector.of("server"))
    side, upstream = the(collector.of("client", "summary")), the(collector.of("client", "chat"))
    assert {side.parent_id, upstream.parent_id} == {server.span_id}
    assert side.attributes["chat_proxy.purpose"] == "summary"
    assert side.attributes["gen_ai.usage.input_tokens"] > 0
    assert context_of(brain.summaries[0].received) == (TRACE, side.span_id)
    assert context_of(brain.chats[0].received) == (TRACE, upstream.span_id)
    told = server.attributes
    assert told["chat_proxy.tokens_before"] > told["chat_proxy.tokens_after"] > 0
    assert told["chat_proxy.messages_before"] > told["chat_proxy.messages_after"]
    assert told["chat_proxy.compaction"] == "built"
    assert told["chat_proxy.stages"]
    assert told["chat_proxy.new_compaction"] is True
    assert told["chat_proxy.summary_wait_ms"] > 0
    assert told["chat_proxy.window"] == WINDOW
    assert told["gen_ai.request.stream"] is True
    assert SECRET_WORD not in collector.texts
    assert KEY not in collector.texts


async def test_a_checkpoint_that_is_used_again_is_told() -> None:
    told = history()
    body = json.dumps({"model": "fake", "messages": told}).encode()
    async with collecting() as collector, fake_model(SummaryModel()) as model:
        proxy = running_proxy(model.url, collector.variables, **WAITS)
        async with proxy as running, raw_client(running) as client:
            for _ in range(2):
                await client.send(APIS[0].http(body))
                await client.answer()
            await eventually(lambda: len(collector.of("server")) == 2, 5)

    first, second = collector.of("server")
    assert first.attributes["chat_proxy.checkpoint_reused"] is False
    assert second.attributes["chat_proxy.checkpoint_reused"] is True


async def test_each_try_of_a_request_that_was_too_long_is_a_span() -> None:
    tries = 0

    async def refuse_once(received: Received, line: Line) -> None:
        nonlocal tries
        tries += received.method == "POST"
        if received.method == "GET" or tries > 1:
            await polite(received, line)
            return
        body = json.dumps(overflow(1_000)).encode()
        await line.head(400, "content-type: application/json", f"content-length: {len(body)}")
        await line.send(body)

    body = json.dumps({"model": "fake", "messages": history(4)}).encode()
    answer, collector, _ = await traced(
        refuse_once, APIS[0].http(body), 3, summary={"enabled": False}
    )

    assert answer.status == 200
    refused, answered = collector.of("client")
    assert refused.attributes["http.response.status_code"] == 400
    assert refused.attributes["error.type"] == "400"
    assert refused.has_failed
    assert (answered.attributes["chat_proxy.replay"], answered.has_failed) == (1, False)
    assert the(collector.of("server")).attributes["chat_proxy.replays"] == 1


async def test_an_upstream_that_cannot_be_reached_is_an_error_in_both_spans() -> None:
    async def dies(_: Received, line: Line) -> None:
        line.reset()

    answer, collector, _ = await traced(dies, APIS[0].http(), 2)

    assert answer.status == 502
    for span in collector.spans:
        assert span.has_failed
        assert span.attributes["error.type"] == answer.headers["x-chat-proxy-error"]


async def test_a_client_that_leaves_ends_both_spans() -> None:
    async def silent(_: Received, line: Line) -> None:
        await line.until_closed()

    async with (
        collecting() as collector,
        fake_model(silent) as model,
        running_proxy(model.url, collector.variables) as proxy,
    ):
        async with raw_client(proxy) as client:
            await client.send(APIS[0].http())
            await eventually(lambda: chats(model))
        await eventually(lambda: len(collector.spans) == 2, 5)

    assert the(collector.of("server")).attributes["error.type"] == "client_closed_request"
    assert the(collector.of("client")).has_failed


async def test_a_model_whose_name_cannot_be_encoded_costs_no_other_span() -> None:
    body = rb'{"model": "\ud800\n\u0007", "messages": [{"role": "user", "content": "Hi"}]}'

    answer, collector, _ = await traced(polite, APIS[0].http(body), 2)

    assert answer.status == 200
    assert the(collector.of("server")).attributes["gen_ai.request.model"] == "?\\n\\x07"


async def test_a_forwarded_request_is_traced_too() -> None:
    body = b'{"model": "fake", "input": "Hi"}'
    lines = ["POST /v1/embeddings HTTP/1.1", "host: x", f"content-length: {len(body)}", "", ""]

    answer, collector, _ = await traced(polite, "\r\n".join(lines).encode() + body, 2)

    assert answer.status == 200
    for span in collector.spans:  # its body is not read, so the model is not known
        assert span.name == "POST /v1/embeddings"
        assert span.attributes["gen_ai.operation.name"] == "embeddings"
        assert "gen_ai.request.model" not in span.attributes


async def test_what_is_not_sampled_is_not_exported_but_passed_on() -> None:
    async with collecting() as collector, fake_model(polite) as model:
        variables = collector.variables | {"OTEL_TRACES_SAMPLER": "always_off"}
        proxy = running_proxy(model.url, variables)
        async with proxy as running, raw_client(running) as client:
            await client.send(APIS[0].http(None, *CONTEXT))
            await client.answer()

    assert collector.spans == []
    trace = (chats(model)[0].header("traceparent") or "").split("-")
    assert (trace[1], trace[3]) == (TRACE, "00")


async def test_a_name_of_the_operator_replaces_ours() -> None:
    variables = {"OTEL_SERVICE_NAME": "gateway", "OTEL_RESOURCE_ATTRIBUTES": "region=north"}

    _, collector, _ = await traced(polite, APIS[0].http(), 2, variables=variables)

    resource = collector.spans[0].resource
    assert (resource["service.name"], resource["region"]) == ("gateway", "north")


async def test_the_log_line_names_the_trace() -> None:
    with listening() as heard:
        _, collector, _ = await traced(polite, APIS[0].http(None, *CONTEXT), 2)
        (line,) = heard.lines("request")

    assert line["trace_id"] == TRACE == the(collector.of("server")).trace_id


async def test_many_requests_at_once_keep_their_traces_apart() -> None:
    async def one(proxy: Proxy, number: int) -> None:
        parent = f"traceparent: 00-{number:032x}-{number:016x}-01"
        async with raw_client(proxy) as client:
            await client.send(APIS[0].http(APIS[0].body(stream=number % 2 == 0), parent))
            assert (await client.answer()).status == 200

    async with (
        collecting() as collector,
        fake_model(polite) as model,
        running_proxy(model.url, collector.variables) as proxy,
    ):
        await asyncio.gather(*(one(proxy, number) for number in range(1, 41)))
        await eventually(lambda: len(collector.spans) == 80, 10)

    for span in collector.of("server"):
        assert int(span.parent_id, 16) == int(span.trace_id, 16)
        child = the([it for it in collector.of("client") if it.trace_id == span.trace_id])
        assert child.parent_id == span.span_id
