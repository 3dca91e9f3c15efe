"""After the demo's story, Prometheus accepts the metrics and every panel of Grafana has data."""

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.cli.demo import running_model
from chat_proxy.demo.model.model import DemoModel
from chat_proxy.demo.model.template import IMAGE_TOKENS
from chat_proxy.demo.story.tell import Stage, run_story
from tests.journeys.dashboard.test_grafana import CONFIGS, DASHBOARD
from tests.support.clock import Stopwatch
from tests.support.live import running_proxy
from tests.support.prometheus_server import Prometheus, promtool, running_prometheus

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

WINDOW = 4_096
LATE_SECONDS = 10.0
"""A summary may end behind the story, and a scrape behind that."""
STANDS_FOR = {"$model": ".*", "$upstream": ".*", "$__range": "5m", "$__rate_interval": "2m"}


def as_asked(query: str) -> str:
    """Return a query as Grafana sends it."""
    for variable, value in STANDS_FOR.items():
        query = query.replace(variable, value)
    return query


async def tell(root: str) -> str:
    """Tell the demo's story; return what it wrote."""
    out = io.StringIO()
    stage = Stage(root, "anything", WINDOW)
    await asyncio.to_thread(run_story, stage, out, lambda: True)
    return out.getvalue()


async def empty_panels(prometheus: Prometheus) -> list[str]:
    """Return the titles of the panels that show nothing."""
    titles = []
    for panel in DASHBOARD["panels"]:
        found = [await prometheus.values(as_asked(it["expr"])) for it in panel["targets"]]
        if not any(found):
            titles.append(panel["title"])
    return titles


async def test_every_panel_has_data_after_the_story(tmp_path: Path) -> None:
    with running_model(DemoModel(WINDOW, words_per_second=300)) as url:
        options: dict[str, Any] = {
            "tools": {"max_bytes": WINDOW},
            "media": {"image_token_estimate": IMAGE_TOKENS},
        }
        async with (
            running_proxy(url, **options) as proxy,
            running_prometheus(proxy.port, tmp_path) as prometheus,
        ):
            await prometheus.until_scraped()
            said = await tell(proxy.url)
            watch = Stopwatch()
            page = proxy.services.metrics.render()
            empty = await empty_panels(prometheus)
            while empty and watch.own() < LATE_SECONDS:
                await asyncio.sleep(0.5)
                empty = await empty_panels(prometheus)
            saved = await prometheus.values("sum(chat_proxy_saved_tokens_total)")

    assert "Saved in all" in said
    assert empty == []
    assert saved[0] > 0
    assert promtool("check", "metrics", given=page) == (0, "")


def test_promtool_accepts_the_configuration_and_its_rules() -> None:
    for kind, name in (("config", "prometheus.yml"), ("rules", "alerts.yml")):
        code, said = promtool("check", kind, str(CONFIGS / name))

        assert (code, "FAILED" in said) == (0, False), said
