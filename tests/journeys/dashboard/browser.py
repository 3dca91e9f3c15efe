"""Debian's Chromium without a window, driven over its DevTools protocol."""

import asyncio
import base64
import itertools
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--force-device-scale-factor=1",
    "--remote-debugging-port=0",
)
START_SECONDS = 30
Event = dict[str, Any]


@dataclass
class Page:
    """One tab, and everything that happened in it."""

    socket: aiohttp.ClientWebSocketResponse
    events: list[tuple[str, Event]] = field(default_factory=list)
    _answers: dict[int, asyncio.Future[Event]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def listen(self) -> None:
        """Take in what the browser says; a dialog is dismissed, or it would wait for ever."""
        async for message in self.socket:
            said = json.loads(message.data)
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
                continue
            self.events.append((said["method"], said["params"]))
            if said["method"] == "Page.javascriptDialogOpening":
                await self._say("Page.handleJavaScriptDialog", accept=False)

    async def tell(self, method: str, **parameters: Any) -> Event:
        """Give a command and return its result."""
        answer = await asyncio.wait_for(await self._say(method, **parameters), 60)
        assert "error" not in answer, answer
        return dict(answer["result"])

    async def _say(self, method: str, **parameters: Any) -> asyncio.Future[Event]:
        number = next(self._numbers)
        answer: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        await self.socket.send_json({"id": number, "method": method, "params": parameters})
        return answer

    async def open(self, url: str) -> None:
        """Go to an address and wait until it is there."""
        await self.tell("Page.navigate", url=url)
        await self.until(
            f"location.href === {json.dumps(url)} && document.readyState === 'complete'"
        )

    async def value(self, expression: str) -> Any:
        """Return what an expression of JavaScript comes to."""
        told = await self.tell(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    async def until(self, expression: str, seconds: float = 15) -> None:
        """Wait until an expression is true."""
        async with asyncio.timeout(seconds):
            while True:
                if await self.value(f"Boolean({expression})"):
                    return
                await asyncio.sleep(0.05)

    async def click(self, selector: str) -> None:
        """Click on an element."""
        await self.value(f"document.querySelector({json.dumps(selector)}).click()")

    async def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Show the page on a screen of this size and scheme."""
        await self.tell(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.tell("Emulation.setEmulatedMedia", features=[scheme])

    async def picture(self) -> bytes:
        """Return what one sees as PNG."""
        return base64.b64decode((await self.tell("Page.captureScreenshot", format="png"))["data"])

    def of_kind(self, method: str) -> list[Event]:
        """What happened of one kind."""
        return [event for name, event in self.events if name == method]

    @property
    def dialogs(self) -> list[Event]:
        """Every dialog that a script opened."""
        return self.of_kind("Page.javascriptDialogOpening")

    @property
    def complaints(self) -> list[str]:
        """Every error on the console: exceptions, refused resources, breaches of the policy."""
        thrown = [
            str(event["exceptionDetails"]) for event in self.of_kind("Runtime.exceptionThrown")
        ]
        logged = [event["entry"] for event in self.of_kind("Log.entryAdded")]
        said = self.of_kind("Runtime.consoleAPICalled")
        return [
            *thrown,
            *(str(entry) for entry in logged if entry["level"] in ("error", "warning")),
            *(str(event["args"]) for event in said if event["type"] in ("error", "warning")),
        ]

    @property
    def requested(self) -> list[str]:
        """Every address that the page asked for."""
        return [event["request"]["url"] for event in self.of_kind("Network.requestWillBeSent")]

    @property
    def responses(self) -> list[Event]:
        """Every answer that the page got."""
        return [event["response"] for event in self.of_kind("Network.responseReceived")]


class Browser:
    """A running Chromium."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._address = address

    @asynccontextmanager
    async def page(self, width: int = 1280, height: int = 900) -> AsyncIterator[Page]:
        """Open an empty tab until the block ends."""
        async with self._session.put(f"{self._address}/json/new?about:blank") as answer:
            target = await answer.json(content_type=None)
        async with self._session.ws_connect(
            target["webSocketDebuggerUrl"], max_msg_size=2**26
        ) as socket:
            page = Page(socket)
            listening = asyncio.create_task(page.listen())
            for domain in ("Page", "Runtime", "Log", "Network"):
                await page.tell(f"{domain}.enable")
            await page.resize(width, height)
            yield page
            listening.cancel()
            await asyncio.wait({listening})
        async with self._session.get(f"{self._address}/json/close/{target['id']}"):
            pass


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """Start Chromium; fail, and say how to get it, where there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program, (
        "chromium is missing: .ci/servers installs it (Debian: apt-get install chromium)"
    )
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            program,
            *FLAGS,
            f"--user-data-dir={folder}",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            address = f"http://127.0.0.1:{await _port(Path(folder) / 'DevToolsActivePort')}"
            async with aiohttp.ClientSession() as session:
                yield Browser(session, address)
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _port(file: Path) -> int:
    async with asyncio.timeout(START_SECONDS):
        while True:
            if lines := _lines(file):
                return int(lines[0])
            await asyncio.sleep(0.05)


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def assert_harmless(page: Page, url: str) -> None:
    """Nothing was complained about, opened, run, or asked for elsewhere, and all was guarded."""
    assert page.complaints == []
    assert page.dialogs == []
    assert [asked for asked in page.requested if not asked.startswith(url)] == []
    for response in page.responses:
        headers = {name.lower(): value for name, value in response["headers"].items()}
        assert headers["content-security-policy"].startswith("default-src 'none'; "), response[
            "url"
        ]
