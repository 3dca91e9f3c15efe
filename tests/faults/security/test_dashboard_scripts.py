"""F16: what a client sends is text on the operator's page, in a real browser."""

import json
from typing import Any

import httpx
import pytest

from tests.journeys.dashboard.browser import assert_harmless, running_browser
from tests.journeys.dashboard.payloads import PAYLOADS
from tests.journeys.dashboard.talks import dashboard

pytestmark = pytest.mark.anyio

ROWS = "document.querySelectorAll('.request').length"
TEXTS = "[...document.querySelectorAll('#detail pre')].map((it) => it.textContent)"


def poisoned(payload: str) -> dict[str, Any]:
    """A request with a payload in every place that the page shows something of."""
    function = {"name": payload, "arguments": payload}
    picture = {"type": "image_url", "image_url": {"url": f"data:{payload};base64,AAAA"}}
    return {
        "model": payload,
        "messages": [
            {"role": "system", "content": payload},
            {"role": payload, "content": payload, "name": payload},
            {"role": "user", "content": [{"type": "text", "text": payload}, picture]},
            {
                "role": "assistant",
                "content": payload,
                "tool_calls": [{"id": payload, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": payload, "name": payload, "content": payload},
            {"role": "user", "content": payload},
        ],
    }


async def send_poison(client: httpx.AsyncClient) -> None:
    for payload in PAYLOADS:
        headers = {
            "x-request-id": "".join(
                filter(str.isprintable, payload.encode("ascii", "ignore").decode())
            )
        }
        body = json.dumps(poisoned(payload)).encode()
        await client.post("/v1/chat/completions", content=body, headers=headers)


async def test_f16_no_text_of_a_client_ever_runs() -> None:
    """F16: sixty payloads, no dialog, no script, not even a breach of the policy.

    All are in the list, and every fourth is looked at closely.
    """
    assert len(set(PAYLOADS)) == 60
    async with (
        dashboard(dashboard={"show_text": True}) as (proxy, client),
        running_browser() as browser,
        browser.page() as page,
    ):
        await send_poison(client)
        await page.open(f"{proxy.url}/dashboard")
        await page.until(f"{ROWS} === {len(PAYLOADS)}")

        shown = await page.value(
            "[...document.querySelectorAll('.request .model')].map((it) => it.textContent)"
        )
        assert set(shown) == {payload[:128] for payload in PAYLOADS}
        for number, payload in list(enumerate(reversed(PAYLOADS)))[::4]:
            await page.value(f"document.querySelectorAll('.request')[{number}].click()")
            await page.until("document.querySelector('#detail .message pre')")
            assert payload in await page.value(TEXTS)

        assert not await page.value("Boolean(window.pwned)")
        assert_harmless(page, proxy.url)
