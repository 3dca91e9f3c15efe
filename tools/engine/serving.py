"""A running engine: started for a few scenarios, and its own metrics."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import httpx

from bench.servers import free_port
from tools.engine.install import FOLDER, MODELS, PYTHON, ROOT

WINDOW: Final = 2_048
SECONDS_TO_START: Final = 420
FLAGS: Final = (
    *("--load-format", "dummy", "--dtype", "float32", "--enforce-eager"),
    *("--max-model-len", str(WINDOW), "--enable-prefix-caching", "--enable-prompt-tokens-details"),
    *("--max-num-seqs", "8", "--block-size", "32"),
)
_ENVIRONMENT: Final = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "NO_PROXY": "*",
}
_SAMPLE: Final = re.compile(r"^([\w:]+)(\{[^}]*\})? ([\d.e+]+)$", re.MULTILINE)


class EngineFailed(Exception):
    """The engine ended before it was ready, or never was."""


@dataclass(frozen=True)
class Engine:
    """Where an engine listens, and the name of its model."""

    model: str
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def figure(self, name: str, *labels: str) -> float:
        """Return one of its metrics, added up over the samples that have these labels."""
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            page = (await client.get(f"{self.url}/metrics")).text
        return sum(
            float(value)
            for found, said, value in _SAMPLE.findall(page)
            if found == name and all(label in said for label in labels)
        )

    async def refusals(self) -> float:
        """Return how many chats it has answered with a 4xx so far."""
        return await self.figure(
            "http_requests_total", 'handler="/v1/chat/completions"', 'status="4xx"'
        )


def command(folder: str, model: str, port: int, *flags: str) -> list[str]:
    """Return the command that serves a model."""
    served = ("--model", str(MODELS / folder), "--served-model-name", model, "--port", str(port))
    return [
        str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", *served, *FLAGS, *flags
    ]  # fmt: skip


@asynccontextmanager
async def running_engine(folder: str, model: str, *flags: str) -> AsyncIterator[Engine]:
    """Run an engine until the block ends."""
    engine = Engine(model, free_port())
    log = FOLDER / f"{folder}.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command(folder, model, engine.port, *flags),
            cwd=ROOT,
            env={**os.environ, **_ENVIRONMENT},  # noqa: TID251 - it is a process of its own
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        await _until_ready(engine, process, str(log))
        yield engine
    finally:
        await _stop(process)


async def _until_ready(engine: Engine, process: asyncio.subprocess.Process, log: str) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
        for _ in range(SECONDS_TO_START * 2):
            if process.returncode is not None:
                raise EngineFailed(f"the engine ended with {process.returncode}, see {log}")
            with suppress(httpx.TransportError):
                if (await client.get(f"{engine.url}/v1/models")).status_code == 200:
                    return
            await asyncio.sleep(0.5)
    raise EngineFailed(f"the engine was not ready in {SECONDS_TO_START} s, see {log}")


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End the whole group: kindly, then for certain."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 15)
