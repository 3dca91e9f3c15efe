"""`python -m tools.counts.served`: estimates against llama.cpp's server with SmolLM2."""

import argparse
import asyncio
import random
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import httpx

from bench.servers import Launch, Server, free_port
from tests.support.command import running_command
from tools.counts.chats import KINDS, LEARNING, Request, Writer
from tools.counts.install import install as install_texts
from tools.counts.report import percentile
from tools.small_model.install import PYTHON, install
from tools.small_model.serve import MODEL

WINDOW: Final = 4_096
_MAX_BYTES: Final = 3_600


def requests_of(number: int, seed: int) -> list[Request]:
    """Return so many small requests of each kind, mixed; the template knows no tools."""
    writer, chance = Writer("held-out", seed), random.Random(seed)
    found = []
    for kind in KINDS:
        kept: list[Request] = []
        while len(kept) < number:
            request = writer.request(kind)
            if len(str(request.messages).encode()) <= _MAX_BYTES * (2 if kind == "tools" else 1):
                kept.append(request._replace(tools=[]))
        found += kept
    chance.shuffle(found)
    return found


async def errors_of(requests: list[Request]) -> list[tuple[str, float]]:
    """Send the requests through a fresh proxy; return the error of each estimate."""
    port = free_port()
    command = [str(PYTHON), "tools/small_model/serve.py", str(port), str(WINDOW), "1"]
    found = []
    with tempfile.TemporaryDirectory() as folder, Server(Launch(command, port), Path(folder)):
        async with (
            running_command(
                "serve",
                UPSTREAM_BASE_URL=f"http://127.0.0.1:{port}/v1",
                STORE_URL="memory:",
            ) as proxy,
            httpx.AsyncClient(base_url=await proxy.url(), trust_env=False, timeout=300) as client,
        ):
            for kind, messages, _ in requests:
                body: dict[str, Any] = {"model": MODEL, "messages": messages, "max_tokens": 1}
                answer = await client.post("/v1/chat/completions", json=body)
                if answer.status_code != 200:
                    print(kind, answer.status_code, answer.text[:200], file=sys.stderr)
                    continue
                tokens = answer.json()["usage"]["prompt_tokens"]
                estimate = int(answer.headers["x-chat-proxy-tokens-after"])
                found.append((kind, estimate / tokens - 1))
                print(f"{kind:12} {estimate:5} {tokens:5} {found[-1][1]:+.1%}", flush=True)
    return found


def main() -> None:
    """Print the errors of each kind."""
    parser = argparse.ArgumentParser(prog="python -m tools.counts.served", description=__doc__)
    parser.add_argument("--each", type=int, default=12, help="requests of each kind")
    parser.add_argument("--seed", type=int, default=3)
    chosen = parser.parse_args()
    install()
    install_texts()
    found = asyncio.run(errors_of(requests_of(chosen.each, chosen.seed)))
    late = defaultdict(list)
    for kind, error in found[LEARNING:]:
        late[kind].append(error)
    for kind, errors in sorted(late.items()):
        print(f"{kind}: {len(errors)} requests, p95 {percentile(errors):.1%}")


if __name__ == "__main__":
    main()
