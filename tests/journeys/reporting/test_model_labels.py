"""Metrics by model and upstream: only names that are configured or listed, others are one."""

import json
from pathlib import Path

import pytest

from chat_proxy import __version__
from chat_proxy.telemetry.metrics import MOST_MODELS, Metrics
from chat_proxy.telemetry.record import RequestRecord
from tests.support.fake_model import polite
from tests.support.figures import figure_in
from tests.support.live import http_client
from tests.support.meeting import meeting

REQUESTS = "chat_proxy_requests_total"


@pytest.mark.anyio
async def test_a_model_that_the_upstream_lists_has_its_own_series() -> None:
    async with meeting(polite) as met:
        await met.ask()
        upstream = met.model.url

        labels = f'model="fake",upstream="{upstream}"'
        assert met.figure(f'{REQUESTS}{{status="200",{labels}}}') == 1
        assert met.figure(f"chat_proxy_request_seconds_count{{{labels}}}") == 1
        assert met.figure(f"chat_proxy_upstream_first_byte_seconds_count{{{labels}}}") == 1
        assert met.figure(f'chat_proxy_upstream_tokens_total{{kind="prompt",{labels}}}') == 11
        assert met.figure(f"chat_proxy_compactions_total{{{labels}}}") == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    "path", ["/v1/chat/explain", "/v1/chat/compact", "/v1/messages/count_tokens"]
)
async def test_what_the_proxy_answers_itself_is_counted_under_the_models_upstream(
    path: str,
) -> None:
    async with meeting(polite) as met, http_client(met.proxy) as client:
        await met.ask()
        body = {"model": "fake", "messages": [{"role": "user", "content": "hi"}]}
        await client.post(path, json=body)

        labels = f'route="{path}",model="fake",upstream="{met.model.url}"'
        assert met.figure(f"{REQUESTS}{{{labels}}}") == 1


@pytest.mark.anyio
async def test_names_that_clients_invent_share_one_series() -> None:
    async with meeting(polite) as met:
        for number in range(3):
            await met.ask(model=f"invented-{number}")
        page = met.proxy.services.metrics.render().decode()

    assert figure_in(page, f'{REQUESTS}{{model="other"}}') == 3
    assert "invented" not in page


@pytest.mark.anyio
async def test_an_alias_is_counted_under_the_configured_name(tmp_path: Path) -> None:
    registry = tmp_path / "registry.json"
    registry.write_text(json.dumps([{"name": "large", "aliases": ["gpt-4o"]}]))
    async with meeting(polite, registry={"file": str(registry)}) as met:
        await met.ask(model="gpt-4o")

        assert met.figure(f'{REQUESTS}{{model="large"}}') == 1


def test_an_upstream_with_very_many_models_does_not_fill_the_page() -> None:
    metrics = Metrics()
    metrics.model_label = lambda _, model: model
    for number in range(MOST_MODELS + 5):
        record = RequestRecord("id", "/v1/chat/completions", "POST", status=200)
        record.model = f"model-{number}"
        metrics.observe(record)

    page = metrics.render().decode()

    assert figure_in(page, REQUESTS) == MOST_MODELS + 5
    assert figure_in(page, f'{REQUESTS}{{model="other"}}') == 5


def test_the_version_is_told_and_no_time_of_creation() -> None:
    page = Metrics().render().decode()

    assert figure_in(page, f'chat_proxy_build_info{{version="{__version__}"}}') == 1
    assert "_created" not in page
