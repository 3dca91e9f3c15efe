"""Group F: what a stranger sends, and what must not come out."""

import asyncio
import json
import random
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from app.routes.forward import ALLOWED
from tests.support.command import Command, ask, running_command
from tests.support.fake_model import Line, Received, answer_json, fake_model, on_chat, polite
from tests.support.live import chat_body, eventually, http_client, raw_client, running_proxy

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


async def test_no_secret_reaches_log_metrics_or_error_bodies() -> None:
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
            SUMMARY_API_KEY=secret(),
            LOG_LEVEL="debug",
            UPSTREAM_BREAKER_FAILURES="0",
        ) as command,
    ):
        url = await command.url()
        bodies = await send_all(url, secret)
        metrics = (await ask(f"{url}/metrics", headers={"x-api-key": "admin"})).text
        sent = secret.count - 6
        await eventually(lambda: len(requests_in(command)) >= sent, 5)

    assert secret.count >= 40
    assert bodies.count('"error"') > 10
    log = "".join(command.err)
    assert CANARY.findall(log) == []
    assert CANARY.findall(metrics) == []
    assert CANARY.findall(bodies) == []
    assert_says_nothing_of_the_inside(bodies, model.port)


def requests_in(command: Command) -> list[dict[str, Any]]:
    return [line for line in command.log() if line["message"] == "request"]


def assert_says_nothing_of_the_inside(bodies: str, port: int) -> None:
    """F14: no host, no path of ours, no stack, no address in memory."""
    for inside in ("127.0.0.1", str(port), "/work", ".py", "Traceback", "line ", "0x", "aiohttp"):
        assert inside not in bodies


async def test_an_error_of_ours_says_nothing_of_the_inside() -> None:
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


ELSEWHERE = {
    "api_base": "http://evil/v1",
    "base_url": "http://evil/v1",
    "api_key": "sk-evil",
    "custom_llm_provider": "openai",
    "extra_body": {"base_url": "http://evil/v1"},
    "model": "openai/http://evil/v1",
}
HEADERS = {
    "host": "evil",
    "x-forwarded-host": "evil",
    "x-upstream-base-url": "http://evil/v1",
    "x-litellm-base-url": "http://evil/v1",
    "x-openai-base-url": "http://evil/v1",
    "forwarded": "host=evil",
    "x-original-url": "/v1/load_lora_adapter",
    "x-http-method-override": "DELETE",
}


async def test_a_request_never_chooses_its_destination() -> None:
    """F9: on every route, by fields and by headers; the key goes where the configuration says."""
    async with (
        fake_model(polite) as evil,
        fake_model(polite) as model,
        running_proxy(model.url, upstream={"api_key": "sk-ours"}) as proxy,
        http_client(proxy) as client,
    ):
        fields = json.loads(json.dumps(ELSEWHERE).replace("evil", f"127.0.0.1:{evil.port}"))
        routes = [("POST", "/v1/chat/completions")]
        for path, methods in ALLOWED.items():
            routes += [(method, path + "x" * path.endswith("/")) for method in sorted(methods)]
        for method, path in routes:
            before = len(model.requests)
            body = {"messages": [], **fields}
            answer = await client.request(method, path, json=body, headers=HEADERS)
            assert answer.status_code == 200
            sent = next(r for r in model.requests[before:] if r.method == method)
            assert sent.target == path
            assert sent.header("host") == f"127.0.0.1:{model.port}"
            assert sent.header("authorization") == "Bearer sk-ours"

    assert evil.connections == 0


OTHER_FORMS = (
    "http://evil/v1/chat/completions",
    "//evil/v1/models",
    "evil:443",
    "*",
    "http://evil/",
)


async def test_a_request_line_with_another_server_is_refused() -> None:
    """F9: absolute and authority form."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        for method, target in product(("GET", "POST", "OPTIONS", "CONNECT"), OTHER_FORMS):
            async with raw_client(proxy) as client:
                await client.send(f"{method} {target} HTTP/1.1\r\nhost: evil\r\n\r\n".encode())
                answer = await client.answer()
            assert answer.status in (400, 404)
            assert set(answer.error) == {"message", "type", "param", "code"}

    assert model.requests == []


async def test_a_hosts_name_is_never_given_back() -> None:
    """F9, F15: no redirect to what the Host header says."""
    async with running_proxy("http://127.0.0.1:1/v1") as proxy, http_client(proxy) as client:
        for path in ("/health/", "/metrics/", "/v1/models/", "/v1/chat/completions/", "/docs/"):
            answer = await client.get(path, headers={"host": "evil"})
            assert answer.status_code == 404
            assert "evil" not in str(answer.headers) + answer.text


async def test_no_page_of_another_origin_may_read_an_answer() -> None:
    """F17: CORS is off on every path."""
    preflight = {
        "origin": "http://evil",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type",
    }
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        http_client(proxy) as client,
    ):
        for path in ("/v1/chat/completions", "/v1/models", "/health", "/metrics", "/nothing"):
            for method in ("OPTIONS", "GET"):
                answer = await client.request(method, path, headers=preflight)
                assert not [name for name in answer.headers if name.startswith("access-control-")]
                assert method == "GET" or answer.status_code in (404, 405)


async def test_the_log_stays_one_line_for_each_request_whatever_its_names() -> None:
    """F12: 2,000 fuzzed model names and request ids through a process of its own."""
    random.seed(12)
    pieces = [
        "\n",
        "\r\n",
        "\0",
        "\x1b[2J",
        "\x7f",
        "\x85",
        "\x9b",
        "\u2028",
        "\u202e",
        "\ud83d",
        '"',
        "}",
    ]
    async with (
        fake_model(polite) as model,
        running_command("serve", UPSTREAM_BASE_URL=model.url, AUTH_KEYS="k") as command,
    ):
        url = await command.url()
        port = int(url.rpartition(":")[2])
        await asyncio.gather(*(flood(port, pieces, 250) for _ in range(8)))
        await eventually(lambda: len(command.err) >= 2_001, 10)

    lines = [json.loads(line) for line in command.err]
    assert len(lines) == 2_001
    assert all(line.rstrip("\n").isprintable() for line in command.err)
    assert {line["message"] for line in lines} == {"server started", "request"}
    assert all(re.fullmatch("[0-9a-f]{32}", line["request_id"]) for line in lines[1:])


async def flood(port: int, pieces: list[str], count: int) -> None:
    """Send requests with nasty names over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(count):
        name = "".join(random.choices(pieces, k=random.randint(1, 9)))
        body = json.dumps({"model": name, "messages": []}).encode()
        given = "".join(c for c in name if c not in "\r\n\0").encode("utf-8", "replace")
        given = bytes(byte for byte in given if byte > 31 and byte != 127)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\n"
        head += b"x-request-id: %s \r\ncontent-length: %d\r\n\r\n" % (given, len(body))
        writer.write(head + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        found = re.search(rb"content-length: (\d+)", answer)
        assert found
        await reader.readexactly(int(found[1]))
    writer.close()
