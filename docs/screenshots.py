"""Take the screenshots of the dashboard and of the demo in terminals: `python docs/screenshots.py`.

Needs Chromium and tmux.
"""

import asyncio
import html
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import httpx  # noqa: E402 - tests/ is not installed, so the path is needed first

from chat_proxy.cli.demo import running_model  # noqa: E402
from chat_proxy.demo.model.model import DemoModel  # noqa: E402
from chat_proxy.telemetry.logs import configure_logging  # noqa: E402
from tests.journeys.dashboard.browser import Page, running_browser  # noqa: E402
from tests.support.live import Proxy, http_client, running_proxy  # noqa: E402

PICTURES = ROOT / "docs" / "screenshots"
WINDOW = 8_192
SENTENCE = "the build failed in module parser because a token of the lexer was read twice"
WORDS = SENTENCE.split()

TERMINALS = {"demo-80x24": (80, 24), "demo-120x40": (120, 40)}
STORY_SECONDS = 300
STYLE = re.compile(r"\x1b\[[0-9;]*m")
TERMINAL_PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #14181f; }}
body {{ overflow: hidden; }}
pre {{ margin: 0; padding: 14px 16px; color: #d7dce4; }}
pre {{ font: 15px/1.3 "DejaVu Sans Mono", monospace; }}
b {{ color: #ffffff; }}
</style><pre>{text}</pre>"""

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


async def talk_by_other_apis(client: httpx.AsyncClient) -> None:
    """Send some requests by Responses and by Messages."""
    chance = Random(7)  # noqa: S311 - words for a picture
    history: list[Message] = []
    for turn in range(4):
        history.append({"role": "user", "content": words(chance, 300 + 200 * turn)})
        fields = {"model": "demo", "input": history, "max_output_tokens": 200}
        await client.post("/v1/responses", json=fields)
        fields = {"model": "demo", "messages": history, "max_tokens": 200}
        await client.post("/v1/messages", json=fields)
        history.append({"role": "assistant", "content": words(chance, 900)})


async def command(client: httpx.AsyncClient) -> None:
    """Send a conversation that ends with `/compact`."""
    chance = Random(9)  # noqa: S311 - words for a picture
    roles = ("user", "assistant") * 6
    messages = [{"role": role, "content": words(chance, 150)} for role in roles]
    messages.append({"role": "user", "content": "/compact"})
    await client.post("/v1/chat/completions", json={"model": "demo", "messages": messages})


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


def tmux(*arguments: str) -> str:
    """Run a command of a tmux server of our own; return what it prints."""
    command = ["tmux", "-L", "chat-proxy-pictures", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    return done.stdout


def terminal_text(columns: int, rows: int) -> str:
    """Run the demo in a terminal of this size until its story ends; return what is shown then."""
    demo = shlex.join([sys.executable, "-m", "chat_proxy", "demo"])
    tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), f"env PS1='$ ' {demo}")
    try:
        until = time.monotonic() + STORY_SECONDS
        while "The proxy stays up" not in tmux("capture-pane", "-p"):
            if time.monotonic() > until:
                raise TimeoutError("the story does not end")
            time.sleep(0.5)
        return tmux("capture-pane", "-e", "-p")
    finally:
        tmux("kill-server")


def terminal_page(text: str) -> str:
    """Return a page that looks like the terminal; of its styles only bold is kept."""
    shown = html.escape(text.rstrip("\n")).replace("\x1b[1m", "<b>").replace("\x1b[0m", "</b>")
    return TERMINAL_PAGE.format(text=STYLE.sub("", shown))


def written(page: str, file: Path) -> str:
    """Write a page to a file; return its address."""
    file.write_text(page, "utf-8")
    return file.as_uri()


async def take_terminal_pictures() -> None:
    """Take the screenshots of the demo."""
    async with running_browser() as browser, browser.page() as page:
        with tempfile.TemporaryDirectory() as folder:
            for name, (columns, rows) in TERMINALS.items():
                text = await asyncio.to_thread(terminal_text, columns, rows)
                await page.open(written(terminal_page(text), Path(folder, f"{name}.html")))
                await show(page, name, 36 + round(9.04 * columns), 28 + round(19.5 * rows))


async def main() -> None:
    """Run some conversations through a proxy and take the screenshots."""
    configure_logging("error", "json")
    PICTURES.mkdir(exist_ok=True)
    await take_terminal_pictures()
    with running_model(DemoModel(WINDOW, words_per_second=2_000)) as model_url:
        async with running_proxy(model_url) as proxy, http_client(proxy) as client:
            await asyncio.gather(talk(client, 1, 6, 120), talk(client, 2, 9, 200))
            await talk_by_other_apis(client)
            await talk(client, 3, 30, 260)
            await command(client)
            await take_pictures(proxy)


if __name__ == "__main__":
    asyncio.run(main())
