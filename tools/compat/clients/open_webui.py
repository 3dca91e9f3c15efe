"""Open WebUI, by its own page in Chromium: `python open_webui.py SCENARIO` starts it and chats."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.journeys.dashboard.browser import Page, running_browser

# configuration
RUN = r"""
export OPENAI_API_BASE_URL=$PROXY OPENAI_API_KEY=$KEY ENABLE_OLLAMA_API=False
open-webui serve --port 8080
"""
# end of configuration

ALONE = """
export DATA_DIR=$HOME/data WEBUI_AUTH=False WEBUI_SECRET_KEY=compat WEBUI_URL=http://127.0.0.1
export OFFLINE_MODE=True HF_HUB_OFFLINE=1 ANONYMIZED_TELEMETRY=False SCARF_NO_ANALYTICS=true
mkdir -p $DATA_DIR
"""
"""One user without a password, and nothing fetched from elsewhere."""
SECONDS_TO_START = 150
SECONDS_TO_ANSWER = 60
TURNS_OF_OVERFLOW = 5
PAGES_A_TURN = 5
WATCH_ERRORS = """
window.seenErrors = [];
new MutationObserver(() => {
  for (const toast of document.querySelectorAll('[data-sonner-toast][data-type=error]'))
    if (!window.seenErrors.includes(toast.innerText)) window.seenErrors.push(toast.innerText);
}).observe(document.body, {childList: true, subtree: true});
"""
ERRORS = """[...window.seenErrors, ...[...document.querySelectorAll(
  '[role=log] [class*="border-red-600"]')].map(it => it.innerText)]"""
ANSWER = """[...document.querySelectorAll('[role=log] [id^=message-]')].filter(
  it => it.querySelector('.chat-assistant')).at(-1)"""
PICTURE = Path("picture.png").absolute()
INPUT = "document.querySelector('#chat-input')"
STOP = """[...document.querySelectorAll('button')].find(
  it => /^Stop/.test(it.ariaLabel || it.title || ''))"""


class WentWrong(Exception):
    """The page showed an error."""


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    """Start Open WebUI and return its address when it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    lines = ALONE + RUN.replace("--port 8080", f"--host 127.0.0.1 --port {port}")
    process = await asyncio.create_subprocess_exec("bash", "-euc", lines)
    url = f"http://127.0.0.1:{port}"
    async with asyncio.timeout(SECONDS_TO_START), httpx.AsyncClient(trust_env=False) as client:
        while True:
            try:
                if (await client.get(f"{url}/health")).is_success:
                    break
            except httpx.TransportError:
                await asyncio.sleep(0.5)
    yield url
    process.terminate()
    await process.wait()


async def open_chat(page: Page, url: str) -> None:
    """Open an empty chat, and close what is told about the version."""
    await page.tell("Page.navigate", url=f"{url}/")
    await page.until(INPUT, SECONDS_TO_ANSWER)
    await page.value(WATCH_ERRORS)
    news = "[...document.querySelectorAll('button')].find(it => /Okay/.test(it.innerText))"
    await page.until(news, SECONDS_TO_ANSWER)
    await page.value(f"{news}.click()")
    await page.until(f"!({news})")


async def send(page: Page, words: str) -> None:
    """Write a message and send it."""
    await page.value(f"{INPUT}.focus()")
    await page.tell("Input.insertText", text=words)
    button = "document.querySelector('#send-message-button:not([disabled])')"
    await page.until(button)
    await page.value(f"{button}.click()")


async def ask(page: Page, words: str) -> str:
    """Send a message and return its answer when it is complete, which its buttons show."""
    before = json.dumps(await page.value(f"{ANSWER}?.id"))
    await send(page, words)
    is_new = f"({ANSWER}?.id || {before}) !== {before}"
    is_over = f"{is_new} && {ANSWER}.querySelector('button[aria-label=Copy]')"
    await page.until(f"{ERRORS}.length || {is_over}", SECONDS_TO_ANSWER)
    if errors := await page.value(ERRORS):
        raise WentWrong("; ".join(errors))
    return str(await page.value(f"{ANSWER}.innerText"))


async def attach(page: Page, file: Path) -> None:
    """Attach a file, and wait until the page shows it."""
    chosen = await page.tell(
        "Runtime.evaluate", expression="document.querySelector('input[type=file]')"
    )
    await page.tell(
        "DOM.setFileInputFiles", files=[str(file)], objectId=chosen["result"]["objectId"]
    )
    await page.until("document.querySelector('form img')", SECONDS_TO_ANSWER)


async def stop(page: Page) -> None:
    """Leave an answer that has begun, by the page's own button."""
    await page.until(f"{ANSWER}?.innerText.includes('and so on')", SECONDS_TO_ANSWER)
    await page.until(STOP)
    await page.value(f"{STOP}.click()")


def text_of_pages(first: int, pages: int) -> str:
    """Return the text of so many pages, in one line."""
    files = [Path(f"page-{number:02d}.txt") for number in range(first, first + pages)]
    return " ".join(file.read_text(encoding="utf-8") for file in files).replace("\n", " ")


async def chat(page: Page, scenario: str) -> None:
    """Do what the scenario asks for, and print the answers."""
    task, turns, pages = os.environ["TASK"], 1, 0  # noqa: TID251 - what a driver is told
    if scenario == "tools":
        turns, pages = int(os.environ["STEPS"]), 1  # noqa: TID251
    if scenario == "overflow":
        turns, pages = TURNS_OF_OVERFLOW, PAGES_A_TURN
    if scenario == "image":
        await attach(page, PICTURE)
    for number in range(1, turns + 1):
        first = (number - 1) * pages + 1
        words = f"Turn {number}: {task} {text_of_pages(first, pages)}"
        sys.stdout.write(f"{await ask(page, words)}\n")


async def main(scenario: str) -> None:
    """Start the server and the browser, and chat."""
    async with serving() as url, running_browser() as browser, browser.page() as page:
        await open_chat(page, url)
        if scenario == "abort":
            await send(page, os.environ["TASK"])  # noqa: TID251
            await stop(page)
        else:
            await chat(page, scenario)
        thrown = page.of_kind("Runtime.exceptionThrown")
        if thrown:
            raise WentWrong(json.dumps(thrown[0]))


asyncio.run(main(sys.argv[1]))
