"""A running engine: started for a few scenarios, and its own metrics."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Literal

import httpx

from bench.servers import free_port
from tools.engine.install import FOLDER, MODELS, PYTHON, ROOT
from tools.small_model.install import PYTHON as SMALL_MODEL_PYTHON
from tools.small_model.serve import MODEL as SMALL_MODEL

WINDOW: Final = 2_048
SECONDS_TO_START: Final = 900
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

PORT: Final = "PORT"
"""Stands for the port in a command."""
Kind = Literal["vllm", "llama.cpp"]


class EngineFailed(Exception):
    """The engine ended before it was ready, or never was."""


@dataclass(frozen=True)
class Engine:
    """Where an engine listens, and the name of its model."""

    model: str
    port: int
    kind: Kind = "vllm"

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


@dataclass(frozen=True)
class Start:
    """How an engine is started, and how it is known."""

    name: str
    model: str
    kind: Kind
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, port: int) -> list[str]:
        """Return the command that serves the model at a port."""
        return [argument.replace(PORT, str(port)) for argument in self.arguments]


def vllm(folder: str, model: str, *flags: str) -> Start:
    """Return how vLLM is started with a tiny model; further names of the model are flags."""
    served = ("--model", str(MODELS / folder), "--port", PORT, "--served-model-name", model)
    program = (str(PYTHON), "-m", "vllm.entrypoints.openai.api_server")
    return Start(folder, model, "vllm", (*program, *served, *flags, *FLAGS), _ENVIRONMENT)


def llama(model: str = SMALL_MODEL) -> Start:
    """Return how llama.cpp's server is started with the small model, one request at a time."""
    program = (str(SMALL_MODEL_PYTHON), "tools/small_model/serve.py")
    return Start("llama.cpp", model, "llama.cpp", (*program, PORT, str(WINDOW), "1"))


@asynccontextmanager
async def running_engine(start: Start) -> AsyncIterator[Engine]:
    """Run an engine until the block ends."""
    engine = Engine(start.model, free_port(), start.kind)
    log = FOLDER / f"{start.name}.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *start.command(engine.port),
            cwd=ROOT,
            env={**os.environ, **start.environment},  # noqa: TID251 - it is a process of its own
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
