"""The picture of a prompt before and after, and what `/compact` did, as the dashboard has them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.journeys.dashboard.browser import assert_harmless, running_browser
from tests.journeys.dashboard.talks import SECRET_WORDS, chat, dashboard, figures, with_pictures
from tests.journeys.summaries.troubles import SECRET_WORD, WINDOW, history
from tests.support.fake_model import fake_model
from tests.support.live import Proxy, http_client, running_proxy
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import user

pytestmark = pytest.mark.anyio

WAITS: dict[str, Any] = {
    "summary": {"wait": "trigger"},
    "budget": {"context_window": WINDOW, "prepare": 1},
}
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]


@asynccontextmanager
async def summarising() -> AsyncIterator[tuple[Proxy, httpx.AsyncClient]]:
    async with (
        fake_model(SummaryModel(names=("demo",))) as model,
        running_proxy(model.url, **WAITS) as proxy,
        http_client(proxy) as client,
    ):
        yield proxy, client


async def newest(client: httpx.AsyncClient) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the row and the detail of the newest chat."""
    row = (await figures(client))["rows"][-1]
    detail = await client.get(f"/dashboard/detail/{row['id']}")
    return row, detail.json()


async def test_the_parts_of_a_folded_prompt_say_what_became_of_its_messages() -> None:
    async with summarising() as (_, client):
        await chat(client, *history(), tools=TOOLS)
        row, detail = await newest(client)

    before, after = detail["parts"]
    assert row["compaction"] == "built"
    assert before["instructions"] == after["instructions"] > 0
    assert before["tools"] == after["tools"] > 0
    assert before["folded"] > after["folded"] > 0
    assert before["whole"] == pytest.approx(after["whole"], rel=0.1)
    assert before["answer"] <= after["answer"] == WINDOW // 8
    assert detail["window"] == WINDOW
    for parts, tokens in ((before, row["tokens"][0]), (after, row["tokens"][1])):
        assert sum(parts.values()) - parts["answer"] == tokens


async def test_what_the_vision_stage_leaves_out_is_told_apart() -> None:
    async with dashboard() as (_, client):
        await chat(client, *with_pictures())
        _, detail = await newest(client)

    before, after = detail["parts"]
    assert before["left_out"] > 0
    assert (before["folded"], after["left_out"], after["folded"]) == (0, 0, 0)


async def test_an_unchanged_prompt_is_whole_on_both_sides() -> None:
    async with dashboard() as (_, client):
        await chat(client, user("hi"))
        _, detail = await newest(client)

    assert detail["parts"][0] == detail["parts"][1]
    assert detail["parts"][0]["short"] == detail["parts"][0]["folded"] == 0


async def test_a_command_says_what_it_did() -> None:
    async with summarising() as (_, client):
        told = history(8)
        await chat(client, *told, user("/compact"))
        row, detail = await newest(client)
        totals = (await figures(client))["totals"]

    assert (row["command"], row["compaction"], row["window"]) == ("/compact", "built", WINDOW)
    assert row["messages"][0] == len(told) > row["messages"][1]
    assert row["tokens"][0] > row["tokens"][1]
    assert detail["parts"][0]["folded"] > detail["parts"][1]["folded"] > 0
    assert (totals["commands"], totals["without_window"], totals["unmeasured"]) == (1, 0, 0)


async def test_a_command_with_nothing_to_fold_says_so() -> None:
    async with summarising() as (_, client):
        await chat(client, user("hi"), user("/compact"))
        row, detail = await newest(client)

    assert (row["command"], row["compaction"]) == ("/compact", "none")
    assert detail["after"] is None


@pytest.mark.parametrize("width", [360, 1280])
async def test_the_page_draws_both_bars_and_the_command(width: int) -> None:
    async with (
        summarising() as (proxy, client),
        running_browser() as browser,
        browser.page() as page,
    ):
        await chat(client, *history())
        await chat(client, *history(8, "b"), user("/compact"))
        await page.resize(width, 800, dark=False)
        await page.open(f"{proxy.url}/dashboard")
        await page.until("document.querySelectorAll('.request').length === 2")
        shown = await page.value("document.querySelector('#requests').innerText")
        tiles = await page.value("document.querySelector('#tiles').innerText")
        assert await page.value("document.documentElement.scrollWidth") <= width
        await page.value("document.querySelectorAll('.request')[1].click()")
        await page.until("document.querySelectorAll('#detail[open] .parts').length === 2")
        widths = await page.value(
            "[...document.querySelectorAll('.part-folded.part')].map((it) => it.offsetWidth)"
        )
        legend = await page.value("document.querySelector('.picture').innerText")
        sticks_out = "(it) => it.scrollWidth > it.clientWidth"
        assert not await page.value(f"({sticks_out})(document.querySelector('#detail'))")
        assert_harmless(page, proxy.url)

    assert "/compact" in shown
    assert "summary written" in shown
    assert "/compact" in tiles
    assert "without a known window" not in tiles
    assert widths[0] > widths[1] > 0
    assert "folded into a summary" in legend
    assert "room for the answer" in legend
    assert SECRET_WORD not in legend
    assert SECRET_WORDS not in legend
