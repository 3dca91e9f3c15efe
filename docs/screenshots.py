"""Take the README's screenshots of the dashboard: `python docs/screenshots.py`; needs Chromium."""

import asyncio
import sys
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import httpx  # noqa: E402 - tests/ is not installed, so the path is needed first

from chat_proxy.cli.demo import running_model  # noqa: E402
from chat_proxy.demo.model.model import DemoModel  # noqa: E402
from tests.journeys.dashboard.browser import Page, running_browser  # noqa: E402
from tests.support.live import Proxy, http_client, running_proxy  # noqa: E402

PICTURES = ROOT / "docs" / "screenshots"
WINDOW = 8_192
SENTENCE = "the build failed in module parser because a token of the lexer was read twice"
WORDS = SENTENCE.split()

Message = dict[str, Any]


def words(chance: Random, number: int) -> str:
    """Return a text of random words."""
    return " ".join(chance.choice(WORDS) for _ in range(number))


async def talk(client: httpx.AsyncClient, seed: int, turns: int, most: int) -> None:
    """Send one growing conversation with tool calls, request by request."""
    chance = Random(seed)  # noqa: S311 - words for a picture
    messages: list[Message] = [{"role": "system", "content": f"You are coding agent {seed}."}]
    for turn in range(turns):
        messages.append({"role": "user", "content": words(chance, chance.randint(30, most))})
        if turn % 3 == 1:
            messages += tool_step(chance, f"call_{turn}", most * 4)
        answer = await client.post(
            "/v1/chat/completions", json={"model": "demo", "messages": messages, "max_tokens": 200}
        )
        reply = answer.json()["choices"][0]["message"] if answer.is_success else {}
        messages.append({"role": "assistant", "content": reply.get("content") or "I see."})


def tool_step(chance: Random, name: str, length: int) -> list[Message]:
    """Return a tool call and its long result."""
    function = {"name": "run_tests", "arguments": '{"path": "tests/"}'}
    calls = [{"id": name, "type": "function", "function": function}]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": name, "content": words(chance, length)},
    ]


async def show(page: Page, name: str, width: int, height: int, *, dark: bool = False) -> None:
    """Take one screenshot."""
    await page.resize(width, height, dark=dark)
    await asyncio.sleep(0.5)
    (PICTURES / f"{name}.png").write_bytes(await page.picture())


async def take_pictures(proxy: Proxy) -> None:
    """Take all screenshots of a proxy that has served some chats."""
    async with running_browser() as browser, browser.page() as page:
        await page.open(f"{proxy.url}/dashboard")
        await page.until("document.querySelectorAll('.request').length > 10")
        await show(page, "dashboard", 1280, 1180)
        await show(page, "dashboard-dark", 1280, 860, dark=True)
        await show(page, "dashboard-phone", 390, 844)
        await page.value(
            "[...document.querySelectorAll('.request')]"
            ".find((it) => it.textContent.includes('compacted')).click()"
        )
        await page.until("document.querySelector('.message')")
        await show(page, "dashboard-detail", 1280, 860)


async def main() -> None:
    """Run some conversations through a proxy and take the screenshots."""
    PICTURES.mkdir(exist_ok=True)
    with running_model(DemoModel(WINDOW, words_per_second=2_000)) as model_url:
        async with running_proxy(model_url) as proxy, http_client(proxy) as client:
            await asyncio.gather(talk(client, 1, 6, 120), talk(client, 2, 9, 200))
            await talk(client, 3, 30, 260)
            await take_pictures(proxy)


if __name__ == "__main__":
    asyncio.run(main())
