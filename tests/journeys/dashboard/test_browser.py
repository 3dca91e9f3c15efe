"""The operator's page in a real browser."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.journeys.dashboard.browser import Browser, Page, assert_harmless, running_browser
from tests.journeys.dashboard.talks import SECRET_WORDS, chat, dashboard, with_pictures
from tests.support.clock import BACKEND
from tests.unit.chat.shapes import Fields, says, user

pytestmark = pytest.mark.anyio

ROWS = "document.querySelectorAll('.request').length"
TEXT = "document.body.innerText"
PAINTED = """(id) => {
  const canvas = document.querySelector(`#${id} canvas`);
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(pixels.buffer)).size;
}"""


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return BACKEND


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with running_browser() as started:
        yield started


async def test_the_page_shows_chats_as_they_come(browser: Browser) -> None:
    async with dashboard() as (proxy, client), browser.page() as page:
        await page.open(f"{proxy.url}/dashboard")
        await page.until(f"{TEXT}.includes('No chat yet')")
        await page.until(f"{TEXT}.includes('Each request of a conversation becomes a point')")

        await chat(client, *with_pictures())
        await page.until(f"{ROWS} === 1")
        await chat(client, user("hi"))
        await page.until(f"{ROWS} === 2")

        told = await page.value(TEXT)
        assert "trimmed" in told
        assert "limit vision history" in told
        assert "live" in told
        assert_harmless(page, proxy.url)


async def test_the_api_of_a_chat_is_shown_unless_it_is_chat_completions(browser: Browser) -> None:
    async with dashboard() as (proxy, client), browser.page() as page:
        await chat(client, user("hi"))
        await client.post("/v1/messages", json={"model": "demo", "messages": [user("hi")]})
        stored = {"model": "demo", "input": "hi", "previous_response_id": "resp_1"}
        await client.post("/v1/responses", json=stored)
        await page.open(f"{proxy.url}/dashboard")
        await page.until(f"{ROWS} === 3")

        lines = "[...document.querySelectorAll('.request .done')].map((it) => it.innerText)"
        responses, messages, chats = await page.value(lines)
        assert "responses" in responses
        assert "history at the upstream" in responses
        assert "messages" in messages
        assert chats == "unchanged"
        await page.click(".request")
        await page.until("document.querySelector('#detail[open] dl')")
        assert "API\nresponses" in await page.value("document.querySelector('#detail').innerText")


async def test_the_charts_have_something_to_show(browser: Browser) -> None:
    async with dashboard() as (proxy, client), browser.page() as page:
        messages: list[Fields] = []
        for number in range(8):
            messages += [user(f"word {number} " * 40), says("ok")]
            await chat(client, *messages[:-1])
        await page.open(f"{proxy.url}/dashboard")
        await page.until(f"{ROWS} === 8")

        for chart in ("timeline", "latest"):
            assert await page.value(f"({PAINTED})('{chart}')") > 8
        assert "8 requests, compacted 0 times" in await page.value(TEXT)
        below = await page.value("document.querySelector('#timeline .u-legend').innerText")
        assert "#8" in below
        assert "\u2013" not in below
        assert_harmless(page, proxy.url)


async def test_the_view_of_one_chat_opens_with_its_structure_only(browser: Browser) -> None:
    async with dashboard() as (proxy, client), browser.page() as page:
        await chat(client, *with_pictures())
        await page.open(f"{proxy.url}/dashboard")
        await page.until(f"{ROWS} === 1")

        await page.click(".request")
        await page.until("document.querySelectorAll('#detail[open] .message').length === 8")

        told = await page.value("document.querySelector('#detail').innerText")
        assert "From the client: 6 messages" in told
        assert "Sent: 2 messages" in told
        assert "not sent (limit vision history)" in told
        assert SECRET_WORDS not in told
        await page.click("#detail-close")
        assert not await page.value("document.querySelector('#detail').open")
        assert_harmless(page, proxy.url)


async def test_the_list_can_be_filtered(browser: Browser) -> None:
    async with dashboard() as (proxy, client), browser.page() as page:
        await chat(client, *with_pictures())
        await chat(client, user("hi"))
        await page.open(f"{proxy.url}/dashboard")
        await page.until(f"{ROWS} === 2")

        for name, rows in (("changed", 1), ("compacted", 0), ("trouble", 0), ("all", 2)):
            await page.value(
                f"(() => {{ const it = document.querySelector('#filter'); it.value = '{name}';"
                "it.dispatchEvent(new Event('change')); })()"
            )
            assert await page.value(ROWS) == rows


async def test_a_lost_connection_is_told_and_found_again(browser: Browser) -> None:
    async with dashboard() as (proxy, client), browser.page() as page:
        await page.open(f"{proxy.url}/dashboard")
        await page.until(f"{TEXT}.includes('live')")

        proxy.services.drain.is_stopping = True
        await page.until(f"{TEXT}.includes('connection lost')")
        proxy.services.drain.is_stopping = False
        await chat(client, user("hi"))
        await page.until(f"{ROWS} === 1")

        assert await page.value("document.querySelector('#live').textContent") == "live"


async def test_the_admin_key_is_asked_for_and_kept_out_of_addresses(browser: Browser) -> None:
    async with dashboard(auth={"admin_key": "boss"}) as (proxy, client), browser.page() as page:
        await chat(client, user("hi"))
        await page.open(f"{proxy.url}/dashboard")
        await page.until("!document.querySelector('#key-form').hidden")
        assert await page.value(ROWS) == 0

        await type_key(page, "wrong")
        await page.until(f"{TEXT}.includes('That is not the key.')")
        await type_key(page, "boss")
        await page.until(f"{ROWS} === 1")

        await page.click(".request")
        await page.until("document.querySelector('#detail[open] .message')")
        assert [asked for asked in page.requested if "boss" in asked] == []


async def type_key(page: Page, key: str) -> None:
    await page.value(
        f"(() => {{ document.querySelector('#key').value = {json.dumps(key)};"
        "document.querySelector('#key-form button').click(); })()"
    )


@pytest.mark.parametrize(("width", "dark"), [(360, False), (360, True), (800, False), (1280, True)])
async def test_nothing_sticks_out_of_any_screen(browser: Browser, width: int, dark: bool) -> None:
    async with dashboard() as (proxy, client), browser.page() as page:
        await chat(client, *with_pictures(), model="a-very-long-model-name/" * 4)
        await page.resize(width, 800, dark=dark)
        await page.open(f"{proxy.url}/dashboard")
        await page.until(f"{ROWS} === 1")

        assert await page.value("document.documentElement.scrollWidth") <= width
        ground = await page.value("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(16, 20, 26)" if dark else "rgb(244, 245, 247)")
        await page.click(".request")
        await page.until("document.querySelector('#detail[open] .message')")
        sticks_out = "(it) => it.scrollWidth > it.clientWidth"
        assert not await page.value(f"({sticks_out})(document.querySelector('#detail'))")
