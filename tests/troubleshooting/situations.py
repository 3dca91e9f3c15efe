"""Fifteen failures that a user may run into, each brought about with a running proxy."""

import asyncio
import base64
import json
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from tests.journeys.planner.tight import before_strict_server, tools
from tests.journeys.summaries.troubles import history
from tests.support.command import run_command, running_command
from tests.support.fake_model import Behaviour, Line, Received, answer_json
from tests.support.live import (
    Proxy,
    RawAnswer,
    chat_body,
    chat_request,
    eventually,
    raw_client,
    running_proxy,
)
from tests.support.meeting import meeting
from tests.support.summary_model import Question, SummaryModel, summarising
from tests.troubleshooting.seen import (
    REQUEST_ID,
    Seen,
    client_lines,
    log_lines,
    readable_log,
    terminal_lines,
)
from tests.unit.chat.shapes import user

NOWHERE = "http://127.0.0.1:1/v1"
WINDOW = {"context_window": 8_192}


@asynccontextmanager
async def proxy_at(url: str, **sections: Any) -> AsyncIterator[tuple[Proxy, StringIO]]:
    """Run a proxy and read its log."""
    sections.setdefault("budget", WINDOW)
    with readable_log() as log:
        async with running_proxy(url, **sections) as proxy:
            yield proxy, log


async def ask(proxy: Proxy, body: bytes | None = None, path: str = "chat/completions") -> RawAnswer:
    """Send one chat request on a connection of its own."""
    request = chat_request(body or chat_body(model="qwen3"), f"x-request-id: {REQUEST_ID}")
    async with raw_client(proxy) as client:
        await client.send(request.replace(b"/v1/chat/completions", f"/{path}".encode(), 1))
        return await client.answer()


async def asked(proxy: Proxy, log: StringIO, body: bytes | None = None) -> Seen:
    """Return what one request shows."""
    answer = await ask(proxy, body, "v1/chat/completions")
    await eventually(lambda: " POST " in log.getvalue())
    return Seen(client_lines(answer), log_lines(log.getvalue()))


def answering(status: int, document: object) -> Behaviour:
    """Answer every chat so."""

    async def behave(received: Received, line: Line) -> None:
        await answer_json(line, document, status)

    return behave


async def refused_by_upstream(status: int, document: object) -> Seen:
    """Return what is seen when the upstream refuses a chat."""
    with readable_log() as log:
        async with meeting(answering(status, document), budget=WINDOW) as met:
            return await asked(met.proxy, log)


async def upstream_down() -> Seen:
    async with proxy_at(NOWHERE) as (proxy, log):
        return await asked(proxy, log)


async def wrong_key() -> Seen:
    message = "Incorrect API key provided: sk-abcd****wxyz."
    error = {"message": message, "type": "invalid_request_error", "code": "invalid_api_key"}
    return await refused_by_upstream(401, {"error": error})


async def wrong_url() -> Seen:
    return await refused_by_upstream(404, {"detail": "Not Found"})


async def no_prefix() -> Seen:
    async with proxy_at(NOWHERE) as (proxy, log):
        answer = await ask(proxy)
        return Seen(client_lines(answer), log_lines(log.getvalue()))


async def port_taken() -> Seen:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        ended = await run_command("serve", SERVER_PORT=port, STORE_URL="memory:")
    lines = [line.replace(port, "8100") for line in terminal_lines(ended)]
    return Seen(log=lines)


async def no_disk() -> Seen:
    with tempfile.TemporaryDirectory(prefix="chat-proxy-troubles-") as folder:
        written(folder, "data", "a file where the folder should be")
        url = f"sqlite:///{folder}/data/chat-proxy.db"
        return await log_of_start("memory serves in place of the store", STORE_URL=url)


async def redis_away() -> Seen:
    url = "redis://127.0.0.1:1/0"
    return await log_of_start("a store operation failed", STORE_URL=url, STORE_SECRET="secret")


async def log_of_start(sentence: str, **variables: str) -> Seen:
    """Return what the log shows of a proxy that starts nevertheless, up to this sentence."""
    async with running_command("serve", LOG_FORMAT="text", **variables) as command:
        async with asyncio.timeout(60):
            while not any(sentence in line for line in command.err):
                assert command.process.returncode is None, command.err
                await asyncio.sleep(0.02)
    until = next(at for at, line in enumerate(command.err) if sentence in line)
    return Seen(log=log_lines("".join(command.err[: until + 1])))


async def unknown_model() -> Seen:
    message = "The model `qwen3` does not exist."
    error = {"message": message, "type": "NotFoundError", "param": None, "code": 404}
    return await refused_by_upstream(404, {"error": error})


async def large_tools() -> Seen:
    with readable_log() as log:
        async with before_strict_server() as guest:
            answer = await guest.tell(
                [user("Hi")], f"x-request-id: {REQUEST_ID}", tools=tools(36, 9_600)
            )
            await eventually(lambda: " POST " in log.getvalue())
    return Seen(client_lines(answer), log_lines(log.getvalue()))


async def summary_refused() -> Seen:
    async def refuse(_: Question, line: Line) -> None:
        message = "This key may not use this model for more than 4096 tokens."
        await answer_json(line, {"error": {"message": message}}, 403)

    brain = SummaryModel(refuse)
    budget = {"context_window": 8_000, "prepare": 1}
    with readable_log() as log:
        async with summarising(brain, budget=budget, summary={"wait": "trigger"}) as met:
            body = json.dumps({"model": "fake", "messages": history()}).encode()
            answer = await ask(met.proxy, body, "v1/chat/completions")
            await eventually(lambda: " POST " in log.getvalue())
    told = f"x-chat-proxy-compaction: {answer.headers['x-chat-proxy-compaction']}"
    return Seen([f"HTTP {answer.status}", told], log_lines(log.getvalue()))


async def breaker_open() -> Seen:
    upstream = {"breaker_failures": 2, "breaker_seconds": 30}
    async with proxy_at(NOWHERE, upstream=upstream) as (proxy, log):
        for _ in range(2):
            await ask(proxy, path="v1/chat/completions")
        answer = await ask(proxy, path="v1/chat/completions")
        await eventually(lambda: log.getvalue().count(" POST ") == 3)
    return Seen(client_lines(answer), log_lines(log.getvalue()))


async def bad_env_file() -> Seen:
    return await command_with(".env", "CHAT_PROXY_SUMMARY_TIMEOUT_SECONDS=soon\n")


async def unknown_setting() -> Seen:
    return await command_with(".env", "CHAT_PROXY_SERVER_PROT=8100\n")


async def command_with(name: str, content: str) -> Seen:
    """Return what `serve` shows in a folder with such a file."""
    with tempfile.TemporaryDirectory(prefix="chat-proxy-troubles-") as folder:
        written(folder, name, content)
        ended = await run_command("serve", cwd=Path(folder))
    return Seen(log=terminal_lines(ended))


def written(folder: str, name: str, content: str) -> None:
    """Write a file."""
    Path(folder, name).write_text(content)


async def no_client_key() -> Seen:
    async with proxy_at(NOWHERE, auth={"keys": "one,two"}) as (proxy, log):
        return await asked(proxy, log)


async def large_image() -> Seen:
    picture = base64.b64encode(bytes(900_000)).decode()
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
    body = chat_body(model="qwen3", messages=[{"role": "user", "content": [part]}])
    limits = {"max_body_bytes": 1_048_576}
    async with proxy_at(NOWHERE, limits=limits) as (proxy, log):
        return await asked(proxy, log, body)
