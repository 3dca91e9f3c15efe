"""Traces are a feature: without them, or without their collector, requests are answered."""

import json
import os
import subprocess
import sys
from importlib.abc import MetaPathFinder

import pytest

from tests.support.clock import PATIENCE_SECONDS
from tests.support.collector import collecting
from tests.support.conversations import Heard, listening
from tests.support.fake_model import Line, Received, answer_json, fake_model, polite
from tests.support.figures import figure_in
from tests.support.live import eventually, raw_client, running_proxy
from tests.support.wires.apis import CHAT

pytestmark = pytest.mark.anyio

GIVEN_UP = "the last spans could not be exported"
NOWHERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "20"}


class Missing(MetaPathFinder):
    """An interpreter in which the SDK is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter")):
            raise ModuleNotFoundError(name)


@pytest.fixture
def _without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "chat_proxy.telemetry.tracing.export", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])


async def ask(variables: dict[str, str], requests: int = 1) -> Heard:
    """Send requests, which are answered, and stop the proxy; return the log."""
    with listening() as heard:
        async with fake_model(polite) as model:
            proxy = running_proxy(model.url, variables)
            async with proxy as running, raw_client(running) as client:
                for _ in range(requests):
                    await client.send(CHAT.http())
                    assert (await client.answer()).status == 200
    return heard


@pytest.mark.usefixtures("_without_the_sdk")
async def test_without_the_extra_requests_are_served_and_one_line_says_what_is_missing() -> None:
    heard = await ask(NOWHERE)

    (line,) = heard.lines("traces are off")
    assert line["level"] == "warning"
    assert "chat-proxy[otel]" in line["reason"]
    assert "trace_id" not in heard.lines("request")[0]


async def test_a_collector_that_is_down_costs_nothing_but_its_spans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The export fails before the stop gives up, which would be another line."""
    monkeypatch.setattr("chat_proxy.telemetry.tracing.tracing.FLUSH_SECONDS", PATIENCE_SECONDS)

    heard = await ask({**NOWHERE, "OTEL_EXPORTER_OTLP_TIMEOUT": "0.2"}, 20)

    (line,) = heard.lines("spans cannot be exported")
    assert line["endpoint"] == "http://127.0.0.1:9/v1/traces"
    assert heard.lines(GIVEN_UP) == []
    assert '"logger":"opentelemetry' not in heard.text


async def test_a_stop_waits_only_a_while_for_a_collector_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exporter, which has ten seconds, still waits for its answer when the proxy has ended."""
    monkeypatch.setattr("chat_proxy.telemetry.tracing.tracing.FLUSH_SECONDS", 0.3)

    async def silent(_: Received, line: Line) -> None:
        await line.until_closed()

    async with fake_model(silent) as collector:
        endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url.removesuffix("/v1")}
        heard = await ask(endpoint)
        is_still_asked = collector.open_connections > 0

    assert heard.lines(GIVEN_UP)
    assert is_still_asked


async def test_spans_that_wait_are_exported_at_the_stop() -> None:
    async with collecting() as collector:
        later = {**collector.variables, "OTEL_BSP_SCHEDULE_DELAY": "60000"}
        await ask(later, 3)
        arrived = len(collector.spans)

    assert arrived == 6


async def test_a_collector_that_comes_back_is_used_again() -> None:
    is_away = True

    async def sometimes(_: Received, line: Line) -> None:
        await answer_json(line, {}, 400 if is_away else 200)

    with listening() as heard:
        async with fake_model(polite) as model, fake_model(sometimes) as collector:
            endpoint = collector.url.removesuffix("/v1")
            variables = {**NOWHERE, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
            proxy = running_proxy(model.url, variables)
            async with proxy as running, raw_client(running) as client:
                await client.send(CHAT.http())
                await client.answer()
                await eventually(lambda: heard.lines("spans cannot be exported"), 5)
                is_away = False
                await client.send(CHAT.http())
                await client.answer()
                await eventually(lambda: heard.lines("spans are exported again"), 5)
                page = running.services.metrics.render().decode()

    assert figure_in(page, 'chat_proxy_spans_total{result="failed"}') == 2


async def test_while_it_is_off_the_clients_trace_context_passes_unchanged() -> None:
    context = ("traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",)
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(CHAT.http(None, *context))
        await client.answer()

    assert model.requests[-1].header("traceparent") == context[0].removeprefix("traceparent: ")


def test_while_it_is_off_nothing_of_it_is_imported() -> None:
    code = (
        "import asyncio, sys\n"
        "from chat_proxy.config.settings import Settings\n"
        "from chat_proxy.server import create_app\n"
        "app = create_app(Settings(_env_file=None, store={'url': 'memory:'}), {})\n"
        "async def run():\n"
        "    async with app.router.lifespan_context(app): pass\n"
        "asyncio.run(run())\n"
        "print([it for it in sys.modules if it.startswith('opentelemetry.sdk')])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert json.loads(done.stdout) == []


async def test_the_environment_is_as_before_when_the_proxy_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "outer")
    async with (
        collecting() as collector,
        running_proxy("http://127.0.0.1:1/v1", collector.variables),
    ):
        found = {it for it in os.environ if it.startswith("OTEL_")}  # noqa: TID251

    assert found == {"OTEL_SERVICE_NAME"}
