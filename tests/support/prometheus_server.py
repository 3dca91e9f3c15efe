"""A real Prometheus on a free port of the loopback, and the checks of its promtool."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.redis_server import free_port

CONFIGURATION = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}
scrape_configs:
  - job_name: chat-proxy
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def promtool(*arguments: str, given: bytes = b"") -> tuple[int, str]:
    """Run promtool; return its exit code and what it says."""
    command = [program("promtool"), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


def program(name: str) -> str:
    """Return where a program is; `.ci/servers` installs it."""
    found = shutil.which(name)
    assert found, f"{name} is missing; bash .ci/servers installs it"
    return found


class Prometheus:
    """A server that scrapes one proxy several times a second."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def values(self, query: str) -> Sequence[float]:
        """Return the values of a query that are numbers."""
        answer = await self._client.get("/api/v1/query", params={"query": query})
        document: dict[str, Any] = answer.json()
        assert document["status"] == "success", (query, document)
        return list(_numbers(document["data"]["result"]))

    async def until_scraped(self) -> None:
        """Wait for the first scrape: only what grows behind it has a rate."""
        for _ in range(300):
            if await self.values("up == 1"):
                return
            await asyncio.sleep(0.1)
        raise AssertionError("Prometheus does not reach the proxy")


def _numbers(result: list[dict[str, Any]]) -> Iterator[float]:
    for series in result:
        value = float(series["value"][1])
        if value == value:  # noqa: PLR0124 - NaN is not
            yield value


@asynccontextmanager
async def running_prometheus(port: int, folder: Path) -> AsyncIterator[Prometheus]:
    """Run a Prometheus that scrapes this port until the block ends."""
    own = free_port()
    file = folder / "prometheus.yml"
    file.write_text(CONFIGURATION.format(port=port))
    process = await asyncio.create_subprocess_exec(
        program("prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{own}",
        "--log.level=error",
    )
    base = f"http://127.0.0.1:{own}"
    try:
        async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=60) as client:
            await _until_ready(client)
            yield Prometheus(client)
    finally:
        process.kill()
        await process.wait()


async def _until_ready(client: httpx.AsyncClient) -> None:
    for _ in range(300):
        try:
            if (await client.get("/-/ready")).status_code == 200:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.1)
    raise AssertionError("Prometheus does not start")
