"""F13 and F14: keys come out nowhere, and errors say nothing of the inside."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Command, ask, running_command
from tests.support.fake_model import Line, Received, answer_json, fake_model, on_chat, polite
from tests.support.live import chat_body, eventually, http_client, running_proxy

pytestmark = pytest.mark.anyio

CANARY = re.compile(r"canary-\d+")


class Canaries:
    """Secrets that are all different, so that a leak says where it comes from."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"sk-canary-{self.count:03d}"


async def unhappy(received: Received, line: Line) -> None:
    """Quote the request in errors, and fall silent or break off on cue."""
    if b"break-off" in received.body:
        line.reset()
    elif b"not-json" in received.body:
        await line.head(200, "content-type: application/json", "content-length: 13")
        await line.send(b"sk-canary-900")
    elif b"redirect" in received.body:
        await line.head(302, "location: http://evil/sk-canary-901", "content-length: 0")
    elif b"in-band" in received.body:
        await line.head(200, "content-type: text/event-stream", "transfer-encoding: chunked")
        await line.chunk(b'data: {"choices":[{"delta":{"content":"sk-canary-902"}}]}\n\n')
        line.reset()
    elif b"unauthorized" in received.body:
        await answer_json(line, {"error": {"message": "bad key sk-canary-903"}}, 401)
    else:
        await polite(received, line)


def requests_with_secrets(secret: Canaries) -> Iterator[dict[str, Any]]:
    """Requests with a secret in every place that a client can fill."""
    for name in (
        "authorization", "x-api-key", "cookie", "user-agent", "x-request-id", "referer", "origin",
        "traceparent", "x-forwarded-for", "x-custom", "openai-organization", "x-chat-proxy-mode",
        "content-type", "accept", "idempotency-key", "proxy-authorization",
    ):  # fmt: skip
        given = secret()
        value = f"Bearer {given}" if "authorization" in name else f"{given} x"
        yield {"headers": {name: value}, "content": chat_body()}
    yield {"params": {"api_key": secret()}, "content": chat_body()}
    yield {"params": {"q": secret()}, "content": chat_body()}
    for behaviour in ("break-off", "not-json", "redirect", "in-band", "unauthorized", "polite"):
        content = f"{behaviour} {secret()}"
        yield {"content": chat_body(messages=[{"role": "user", "content": content}])}
    for field in ("user", "metadata", "tools", "n", "messages", "stream", "response_format"):
        yield {"content": chat_body(**{field: secret()})}
    yield {"content": secret().encode()}
    yield {"content": f'{{"x": "{secret()}'.encode()}
    yield {"content": f'{{"x": "{secret()}", "y": NaN}}'.encode()}
    yield {"content": chat_body(user=secret()) + b"\xff"}
    yield {"content": b"[" * 100 + secret().encode()}
    yield {"content": secret().encode(), "headers": {"content-encoding": "gzip"}}


async def send_all(url: str, secret: Canaries) -> str:
    """Send everything; return all that our own errors say."""
    said = ""
    for request in requests_with_secrets(secret):
        answer = await ask(f"{url}/v1/chat/completions", "POST", **request)
        if "x-chat-proxy-error" in answer.headers:
            said += answer.text
    for path in (f"/v1/models/{secret()}", f"/v1/{secret()}", f"/{secret()}"):
        answer = await ask(url + path)
        if "x-chat-proxy-error" in answer.headers:
            said += answer.text
    return said


async def test_f13_no_secret_reaches_log_metrics_store_or_error_bodies(tmp_path: Path) -> None:
    """F13, F14: 40 canaries in every place, at debug level, in a process of its own."""
    secret = Canaries()
    async with (
        fake_model(on_chat(unhappy)) as model,
        running_command(
            "serve",
            UPSTREAM_BASE_URL=model.url,
            UPSTREAM_API_KEY=secret(),
            AUTH_ADMIN_KEY="admin",
            STORE_SECRET=secret(),
            STORE_URL=f"sqlite:///{tmp_path}/store.db",
            SUMMARY_API_KEY=secret(),
            LOG_LEVEL="debug",
            UPSTREAM_BREAKER_FAILURES="0",
        ) as command,
    ):
        url = await command.url()
        bodies = await send_all(url, secret)
        metrics = (await ask(f"{url}/metrics", headers={"x-api-key": "admin"})).text
        sent = secret.count - 6
        await eventually(lambda: len(requests_in(command)) >= sent)

    assert secret.count >= 40
    assert bodies.count('"error"') > 10
    log = "".join(command.err)
    assert CANARY.findall(log) == []
    assert CANARY.findall(metrics) == []
    assert CANARY.findall(bodies) == []
    assert leaks_in(tmp_path) == []
    assert_says_nothing_of_the_inside(bodies, model.port)


def leaks_in(folder: Path) -> list[str]:
    """The files that a secret got into."""
    files = list(folder.iterdir())
    assert files
    return [file.name for file in files if b"canary-" in file.read_bytes()]


def requests_in(command: Command) -> list[dict[str, Any]]:
    return [line for line in command.log() if line["message"] == "request"]


def assert_says_nothing_of_the_inside(bodies: str, port: int) -> None:
    """F14: no host, no path of ours, no stack, no address in memory."""
    for inside in ("127.0.0.1", str(port), "/work", ".py", "Traceback", "line ", "0x", "aiohttp"):
        assert inside not in bodies


async def test_f14_an_error_of_ours_says_nothing_of_the_inside() -> None:
    """F14: also when the upstream cannot be reached at all."""
    async with (
        running_proxy("http://nowhere.invalid:4711/secret/v1", auth={"keys": "k"}) as proxy,
        http_client(proxy) as client,
    ):
        bodies = ""
        for headers in ({}, {"x-api-key": "wrong"}, {"x-api-key": "k"}):
            for path in ("/v1/models", "/v1/nothing", "/nothing", "/metrics/x"):
                bodies += (await client.get(path, headers=headers)).text
            post = await client.post("/v1/chat/completions", content=chat_body(), headers=headers)
            bodies += post.text

    assert bodies.count('"error"') == 15
    assert "nowhere" not in bodies
    assert "secret" not in bodies
    assert_says_nothing_of_the_inside(bodies, 4711)
