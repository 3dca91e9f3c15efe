"""The proxy as a process of its own: its log goes into the books, its insides are measured."""

import asyncio
import json
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx

from tests.support.command import ROOT, environment
from tests.support.live import eventually
from tools.soak.books import CHAT, Books
from tools.soak.growth import Sample
from tools.soak.plan import NOBODY

WINDOW = 8_000
_PAGE = re.compile(r"^(\w+)(?:\{(.*)\})? ([\d.e+-]+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class SoakedProxy:
    """A running proxy."""

    def __init__(self, process: asyncio.subprocess.Process, store: Path, books: Books) -> None:
        self.process = process
        self.store = store
        self.books = books
        self.port = 0
        self.started = time.monotonic()
        self.last_words: list[str] = []
        self._client = httpx.AsyncClient(trust_env=False, timeout=30)

    async def listen(self) -> None:
        """Enter every line of the log into the books until the process ends."""
        assert self.process.stderr
        while line := await self.process.stderr.readline():
            if not line.startswith(b"{"):
                self.last_words = [*self.last_words[-20:], line.decode(errors="replace")]
                continue
            said = json.loads(line)
            if said["message"] == "server started":
                self.port = int(str(said["address"]).rpartition(":")[2])
            self.books.log(said)

    async def sample(self) -> Sample:
        """Measure it now."""
        proc = Path(f"/proc/{self.process.pid}")
        status = dict(
            line.split(":", 1) for line in (proc / "status").read_text().splitlines() if ":" in line
        )
        tasks = [value for name, _, value in await self.figures() if name == "chat_proxy_tasks"]
        wal = self.store.with_name(self.store.name + "-wal")
        return Sample(
            seconds=time.monotonic() - self.started,
            requests=self.books.sent,
            rss_bytes=int(status["VmRSS"].split()[0]) * 1024,
            fds=len(list((proc / "fd").iterdir())),
            tasks=int(tasks[0]),
            threads=int(status["Threads"]),
            wal_bytes=wal.stat().st_size if wal.exists() else 0,
        )

    async def figures(self) -> list[tuple[str, dict[str, str], float]]:
        """Return all of its metrics: name, labels, value."""
        answer = await self._client.get(f"http://127.0.0.1:{self.port}/metrics")
        return [
            (name, dict(_LABEL.findall(labels)), float(value))
            for name, labels, value in _PAGE.findall(answer.text)
        ]

    async def counted(self) -> Counter[str]:
        """Return how many chats it says it has answered, by status."""
        found: Counter[str] = Counter()
        for name, labels, value in await self.figures():
            if name == "chat_proxy_requests_total" and labels["route"] == CHAT:
                found[labels["status"]] += int(value)
        return found

    async def close(self) -> None:
        """Let go of the connection for figures."""
        await self._client.aclose()


@asynccontextmanager
async def soaked_proxy(upstream_url: str, folder: Path, books: Books) -> AsyncIterator[SoakedProxy]:
    """Run the proxy with everything on and a small window, until the block ends."""
    store = folder / "store.db"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tools.soak.small_proxy"),
        env=environment(_settings(upstream_url, folder, store)),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    proxy = SoakedProxy(process, store, books)
    listening = asyncio.create_task(proxy.listen())
    try:
        await eventually(lambda: proxy.port or listening.done(), seconds=60)
        assert proxy.port, proxy.last_words
        yield proxy
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await listening
        await process.wait()
        await proxy.close()


def _settings(upstream_url: str, folder: Path, store: Path) -> dict[str, str]:
    registry = folder / "registry.json"
    registry.write_text(json.dumps([{"name": NOBODY, "base_url": "http://127.0.0.1:1/v1"}]))
    return {
        "UPSTREAM_BASE_URL": upstream_url,
        "UPSTREAM_FIRST_BYTE_TIMEOUT_SECONDS": "5",
        "UPSTREAM_IDLE_TIMEOUT_SECONDS": "5",
        "REGISTRY_FILE": str(registry),
        "STORE_URL": f"sqlite:///{store}",
        "ARCHIVE_ENABLED": "true",
        "ARCHIVE_DIR": str(folder / "archive"),
        "ARCHIVE_MAX_BYTES": "50000000",
        "BUDGET_CONTEXT_WINDOW": str(WINDOW),
        "TOOLS_MAX_BYTES": "4000",
        "SUMMARY_TIMEOUT_SECONDS": "10",
        # An answer that begins before its summary is there has its status by then.
        "SUMMARY_KEEP_ALIVE_SECONDS": "60",
        "LOG_FORMAT": "json",
    }
