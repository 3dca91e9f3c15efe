"""What operators and their machines ask."""

import asyncio
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi import FastAPI

from chat_proxy.server import lifespan_of, operations_of, refresh_regularly
from chat_proxy.telemetry.logs import configure_logging
from chat_proxy.wiring import make_services
from tests.support.fake_model import (
    COMPLETION,
    DONE,
    Line,
    Received,
    answer_json,
    begin_stream,
    delta,
    event,
    fake_model,
    on_chat,
    polite,
)
from tests.support.figures import figure_in
from tests.support.live import (
    Proxy,
    chat_body,
    chat_request,
    eventually,
    http_client,
    raw_client,
    running_proxy,
    settings,
)

pytestmark = pytest.mark.anyio

NOWHERE = "http://127.0.0.1:1/v1"


def figures(proxy: Proxy) -> dict[str, float]:
    """Every figure by its name and labels."""
    lines = proxy.services.metrics.render().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


async def test_health_and_readiness_are_told() -> None:
    async with running_proxy(NOWHERE) as proxy, http_client(proxy) as client:
        ok = [(path, "ok") for path in ("/health", "/healthz", "/livez")]
        for path, status in [*ok, ("/readyz", "ready")]:
            answer = await client.get(path)
            assert (answer.status_code, answer.json()) == (200, {"status": status})
            head = await client.head(path)
            assert (head.status_code, head.content) == (200, b"")


async def test_a_stopping_proxy_lives_but_is_not_ready() -> None:
    """E1: load balancers see it at once."""
    async with running_proxy(NOWHERE) as proxy, http_client(proxy) as client:
        proxy.services.drain.begin()
        ready, health = await client.get("/readyz"), await client.get("/health")

    assert (ready.status_code, ready.json()) == (503, {"status": "stopping"})
    assert health.status_code == 200


async def test_metrics_need_the_admin_key_when_there_is_one() -> None:
    """F15."""
    keys = {"keys": "user", "admin_key": "admin"}
    async with running_proxy(NOWHERE, auth=keys) as proxy, http_client(proxy) as client:
        for headers, status in (
            ({}, 401),
            ({"authorization": "Bearer user"}, 401),
            ({"authorization": "Bearer admin"}, 200),
            ({"x-api-key": "admin"}, 200),
            ({"authorization": "Bearer admin", "x-api-key": "user"}, 401),
        ):
            answer = await client.get("/metrics", headers=headers)
            assert answer.status_code == status
            if status == 401:
                assert answer.json()["error"]["code"] == "invalid_api_key"
        as_client = await client.get("/v1/models", headers={"authorization": "Bearer admin"})

    assert as_client.status_code == 401


async def test_metrics_can_be_off() -> None:
    async with (
        running_proxy(NOWHERE, metrics={"enabled": False}) as proxy,
        http_client(proxy) as client,
    ):
        assert (await client.get("/metrics")).status_code == 404


async def test_the_apis_pages_are_served_only_if_asked_for() -> None:
    """F15."""
    async with (
        running_proxy(NOWHERE, server={"docs_enabled": True}) as proxy,
        http_client(proxy) as client,
    ):
        page, schema = await client.get("/docs"), await client.get("/openapi.json")

    assert page.status_code == 200
    paths = {"/health", "/healthz", "/livez", "/readyz", "/metrics"}
    assert set(schema.json()["paths"]) == paths


async def test_requests_are_counted_by_route_status_and_code() -> None:
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        http_client(proxy) as client,
    ):
        await client.post("/v1/chat/completions", content=chat_body())
        await client.post("/v1/chat/completions", content=chat_body())
        await client.post("/v1/chat/completions", content=b"{")
        await client.get("/v1/models/a")
        await client.get("/v1/models/b")
        await client.get("/v1/a-name-that-must-not-become-a-label")
        await client.put("/v1/models")
        answer = await client.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    counted = [
        line.removeprefix("chat_proxy_requests_total")
        for line in answer.text.splitlines()
        if "_requests_total{" in line
    ]
    at = f'upstream="{model.url}"'
    assert sorted(counted) == [
        f'{{code="",model="",route="/v1/models/",status="200",{at}}} 2.0',
        f'{{code="",model="fake",route="/v1/chat/completions",status="200",{at}}} 2.0',
        '{code="invalid_json",model="",route="/v1/chat/completions",status="400",upstream=""} 1.0',
        '{code="method_not_allowed",model="",route="/v1/models",status="405",upstream=""} 1.0',
        '{code="not_found",model="",route="unknown",status="404",upstream=""} 1.0',
    ]
    assert "must-not" not in answer.text


async def test_bytes_tokens_and_times_are_counted() -> None:
    body = chat_body(user="x" * 500)
    usage = {
        "prompt_tokens": 11,
        "completion_tokens": 6,
        "prompt_tokens_details": {"cached_tokens": 5},
    }

    async def complete(received: Received, line: Line) -> None:
        if b'"stream": true' in received.body:
            await begin_stream(line)
            await line.chunk(delta("Hi", "stop") + event({"choices": [], "usage": usage}) + DONE)
            await line.chunk(b"")
        else:
            await answer_json(line, {**COMPLETION, "usage": usage})

    async with (
        fake_model(on_chat(complete)) as model,
        running_proxy(model.url) as proxy,
        http_client(proxy) as client,
    ):
        answers = [
            await client.post("/v1/chat/completions", content=content)
            for content in (body, chat_body(stream=True))
        ]
        await eventually(lambda: figures(proxy)["chat_proxy_requests_in_flight"] == 0)
        seen = figures(proxy)
        page = proxy.services.metrics.render().decode()

    assert seen['chat_proxy_bytes_total{direction="in"}'] == len(body) + len(chat_body(stream=True))
    assert seen['chat_proxy_bytes_total{direction="out"}'] == sum(len(a.content) for a in answers)
    assert figure_in(page, 'chat_proxy_upstream_tokens_total{kind="prompt"}') == 22
    assert figure_in(page, 'chat_proxy_upstream_tokens_total{kind="completion"}') == 12
    assert figure_in(page, 'chat_proxy_upstream_tokens_total{kind="cached"}') == 10
    for name in ("request_seconds", "upstream_first_byte_seconds"):
        count = f'chat_proxy_{name}_count{{route="/v1/chat/completions",model="fake"}}'
        assert figure_in(page, count) == 2


async def test_requests_in_flight_are_counted_and_leave_no_trace() -> None:
    async def silent(received: Received, line: Line) -> None:
        await line.until_closed()

    def running(proxy: Proxy) -> float:
        return figures(proxy)["chat_proxy_requests_in_flight"]

    async with (
        fake_model(on_chat(silent)) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as one,
        raw_client(proxy) as other,
        http_client(proxy) as client,
    ):
        await one.send(chat_request())
        await other.send(chat_request())
        await eventually(lambda: running(proxy) == 2)
        one.leave()
        other.leave()
        await eventually(lambda: running(proxy) == 0)
        await client.post("/v1/chat/completions", content=b"{")
        seen = figures(proxy)

    assert seen["chat_proxy_requests_in_flight"] == 0
    assert seen['chat_proxy_client_abort_total{phase="ttfb"}'] == 2


async def test_a_client_that_leaves_while_it_uploads_is_counted_there() -> None:
    """A17."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        for path in (b"/v1/chat/completions", b"/v1/embeddings"):
            async with raw_client(proxy) as client:
                await client.send(
                    b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{" % path
                )
                await eventually(lambda: proxy.services.admission.held_bytes == 1)
                client.leave()
            await eventually(lambda: proxy.services.admission.held_bytes == 0)
        seen = figures(proxy)

    assert seen['chat_proxy_client_abort_total{phase="body"}'] == 2
    assert model.requests == []


async def test_repeated_keys_and_rate_limits_are_counted() -> None:
    async def limit(received: Received, line: Line) -> None:
        await answer_json(line, {"error": {}}, 429)

    async with (
        fake_model(on_chat(limit)) as model,
        running_proxy(model.url) as proxy,
        http_client(proxy) as client,
    ):
        twice = b'{"model":"a","model":"b","messages":[]}'
        await client.post("/v1/chat/completions", content=twice)
        seen = figures(proxy)

    assert json.loads(model.requests[-1].body)["model"] == "b"
    assert seen["chat_proxy_dup_key_total"] == 1
    assert seen["chat_proxy_upstream_429_total"] == 1


async def test_open_breakers_are_shown() -> None:
    async with (
        running_proxy(NOWHERE, upstream={"breaker_failures": 1}) as proxy,
        http_client(proxy) as client,
    ):
        await client.post("/v1/chat/completions", content=chat_body())
        answer = await client.get("/metrics")

    assert "chat_proxy_upstream_breakers_open 1.0" in answer.text.splitlines()


async def test_counting_goes_on_after_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """E10."""
    calls: list[object] = []

    def fail(operations: object) -> None:
        calls.append(operations)
        raise RuntimeError

    monkeypatch.setattr("chat_proxy.routes.ops.Operations.refresh_gauges", fail)
    operations = operations_of(make_services(settings(), {}))
    counting = asyncio.create_task(refresh_regularly(operations, 0.001))
    await eventually(lambda: len(calls) > 3)
    assert not counting.done()
    counting.cancel()


async def test_a_proxy_that_cannot_be_opened_says_so_and_does_not_start() -> None:
    services = make_services(settings(), {})
    told = io.StringIO()

    def fail() -> None:
        raise RuntimeError("sk-canary")

    operations = operations_of(services)
    object.__setattr__(services.forwarding, "upstream", SimpleNamespace(open=fail))
    configure_logging("error", "json", told)
    with pytest.raises(RuntimeError):
        await lifespan_of(services, operations)(FastAPI()).__aenter__()
    configure_logging("error", "json", sys.stderr)

    assert json.loads(told.getvalue())["message"] == "the proxy could not start"
    assert "canary" not in told.getvalue()


async def test_a_store_that_cannot_be_opened_is_told_and_costs_nothing(tmp_path: Path) -> None:
    """FAULTS D3, D5: memory instead, and readiness says so."""
    (tmp_path / "file").write_text("no folder")
    store = {"url": f"sqlite:///{tmp_path}/file/x.db"}
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, store=store) as proxy,
        http_client(proxy) as client,
    ):
        answer = await client.get("/readyz")

    assert answer.status_code == 200
    assert answer.json() == {"status": "ready", "degraded": "store"}


async def test_the_figures_tell_how_many_tasks_there_are() -> None:
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        http_client(proxy) as client,
    ):
        before = _tasks_in((await client.get("/metrics")).text)
        waiting = [asyncio.create_task(asyncio.Event().wait()) for _ in range(5)]
        after = _tasks_in((await client.get("/metrics")).text)
        for task in waiting:
            task.cancel()

    assert after == before + 5


def _tasks_in(page: str) -> float:
    (line,) = (line for line in page.splitlines() if line.startswith("chat_proxy_tasks "))
    return float(line.split()[1])
