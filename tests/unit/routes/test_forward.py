"""The other paths of the API pass byte for byte, and nothing else does."""

import hashlib
import json
from itertools import product
from pathlib import Path

import pytest

from tests.support.fake_model import (
    DONE,
    FakeModel,
    Line,
    Received,
    answer_json,
    begin_stream,
    fake_model,
    polite,
)
from tests.support.live import RawAnswer, http_client, raw_client, running_proxy

pytestmark = pytest.mark.anyio

PATHS = [
    ("GET", "/v1/models"),
    ("GET", "/v1/models/gpt-4o"),
    ("GET", "/v1/models/Qwen/Qwen2.5-VL-7B-Instruct"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/moderations"),
    ("POST", "/v1/rerank"),
    ("POST", "/v1/score"),
    ("GET", "/v1/responses/resp_1"),
    ("POST", "/v1/responses/resp_1/cancel"),
    ("DELETE", "/v1/responses/resp_1"),
    ("GET", "/v1/responses/resp_1/input_items"),
    ("POST", "/v1/messages/batches"),
    ("POST", "/v1/audio/transcriptions"),
    ("POST", "/v1/audio/speech"),
    ("POST", "/v1/images/generations"),
    ("POST", "/v1/images/edits"),
]
ODD_JSON = b'{"model" :"x",\n  "input": "\\ud83d", "n": 12345678901234567890123 , "a":1, "a":2}'


async def echo(received: Received, line: Line) -> None:
    """Answer with what came, in bytes that JSON would not survive."""
    body = received.method.encode() + b" " + received.target.encode() + b"\0\xff" + received.body
    await line.head(
        201, "content-type: application/octet-stream", f"content-length: {len(body)}", "x-own: 1"
    )
    await line.send(body)


async def sent(proxy_port: object, request: bytes) -> RawAnswer:
    async with raw_client(proxy_port) as client:  # type: ignore[arg-type]
        await client.send(request)
        return await client.answer()


def raw(method: str, target: str, body: bytes, content_type: str = "application/json") -> bytes:
    head = f"{method} {target} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
    return f"{head}content-type: {content_type}\r\n\r\n".encode() + body


async def test_every_allowed_path_passes_byte_for_byte() -> None:
    async with fake_model(echo) as model, running_proxy(model.url) as proxy:
        for method, path in PATHS:
            body = ODD_JSON if method == "POST" else b""
            target = f"{path}?limit=2&after=a%20b%2Fc&&x"
            answer = await sent(proxy, raw(method, target, body))

            received = model.requests[-1]
            assert (received.method, received.target, received.body) == (method, target, body)
            assert received.header("content-type") == "application/json"
            assert answer.status == 201
            assert answer.headers["x-own"] == "1"
            assert answer.headers["x-request-id"] == received.header("x-request-id")
            assert answer.body == f"{method} {target}".encode() + b"\0\xff" + body


async def test_an_upload_passes_byte_for_byte() -> None:
    path = "/v1/audio/transcriptions"
    body = b"--b\r\ncontent-disposition: form-data; name=file\r\n\r\n" + bytes(range(256)) * 4_000
    async with fake_model(echo) as model, running_proxy(model.url) as proxy:
        await sent(proxy, raw("POST", path, body, "multipart/form-data; boundary=b"))

    [received] = model.requests
    assert received.header("content-type") == "multipart/form-data; boundary=b"
    assert hashlib.sha256(received.body).digest() == hashlib.sha256(body).digest()


async def test_a_stream_of_another_kind_passes_as_it_comes() -> None:
    pieces = [b"event: start\ndata: {}\n\n", b"event: ping\n\n", DONE, b"data: tail\n\n"]

    async def stream(received: Received, line: Line) -> None:
        await begin_stream(line)
        for piece in pieces:
            await line.chunk(piece)
        await line.chunk(b"")

    async with fake_model(stream) as model, running_proxy(model.url) as proxy:
        answer = await sent(proxy, raw("POST", "/v1/completions", b'{"stream": true}'))

    assert answer.body == b"".join(pieces)


async def test_an_error_of_the_upstream_passes_untouched() -> None:
    async def refuse(received: Received, line: Line) -> None:
        status = int(received.target.rpartition("=")[2])
        await answer_json(line, {"detail": "its own words"}, status, "retry-after: 7")

    async with fake_model(refuse) as model, running_proxy(model.url) as proxy:
        for status in (400, 401, 404, 422, 429, 500, 503):
            answer = await sent(proxy, raw("POST", f"/v1/embeddings?want={status}", b"{}"))

            assert (answer.status, answer.headers["retry-after"]) == (status, "7")
            assert answer.body == b'{"detail": "its own words"}'
            assert "x-chat-proxy-error" not in answer.headers


AMBIGUOUS = (
    "/v1/models/../load_lora_adapter",
    "/v1/models/..%2fload_lora_adapter",
    "/v1/models/%2e%2e/load_lora_adapter",
    "/v1/models/%252e%252e/x",
    "/v1/models/.../x",
    "/v1/models/./x",
    "/v1/models/x/.",
    "/v1/models/x/",
    "/v1/models/x%2f",
    "/v1/models/x%2F%2fy",
    "/v1/models/x%2f.",
    "/v1/models/x%2f..%2fy",
    "/v1/models%2fx",
    "/v1%2fmodels/x",
    "/v1/models//x",
    "/v1/models/x%00",
    "/v1/models/x%0d%0aevil:1",
    "/v1/models/x\\y",
    "/v1/models/x;y",
    "/v1/models/http:%2f%2fevil",
    "/v1/models/caf%c3%a9",
    "/v1/audio/../../metrics",
    "/v1/responses/..",
    "/v1/images/%2e",
)


async def test_a_path_that_could_mean_another_is_404() -> None:
    """F9, F11."""
    async with fake_model(echo) as model, running_proxy(model.url) as proxy:
        for method, path in product(("GET", "POST"), AMBIGUOUS):
            answer = await sent(proxy, raw(method, path, b""))
            assert (path, answer.status, answer.error["code"]) == (path, 404, "not_found")

    assert model.requests == []


@pytest.mark.parametrize("name", ["Qwen%2FQwen3-8B", "qwen%2fqwen3-8b", "a%2Fb%2Fc.gguf"])
async def test_a_models_name_may_have_an_escaped_slash(name: str) -> None:
    """As the openai SDKs write it when they ask for one model."""
    async with fake_model(echo) as model, running_proxy(model.url) as proxy:
        answer = await sent(proxy, raw("GET", f"/v1/models/{name}", b""))

    assert answer.status == 201
    assert [received.target for received in model.requests] == [f"/v1/models/{name}"]


async def test_an_escaped_spelling_of_an_exact_path_is_that_path() -> None:
    async with fake_model(echo) as model, running_proxy(model.url) as proxy:
        await sent(proxy, raw("GET", "/v1/%6dodels", b""))

    assert [received.target for received in model.requests] == ["/v1/models"]


async def test_a_web_pages_form_is_refused_where_no_upload_belongs() -> None:
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        http_client(proxy) as client,
    ):
        headers = {"origin": "http://evil", "content-type": "text/plain"}
        for path in ("/v1/completions", "/v1/embeddings", "/v1/messages"):
            answer = await client.post(path, content=b"{}", headers=headers)
            assert answer.status_code == 415

    assert model.requests == []


# Models with upstreams of their own


def registry(tmp_path: Path, other: FakeModel) -> dict[str, Path]:
    file = tmp_path / "registry.json"
    entry = {"name": "own", "aliases": ["mine"], "base_url": other.url, "api_key_env": "OWN_KEY"}
    file.write_text(json.dumps([entry]))
    return {"file": file}


BODIES = (
    (b'{"model": "own"}', True),
    (b'{"model": "mine", "input": "\\ud83d"}', True),
    (b'{"model": "other"}', False),
    (b'{"model": ["own"]}', False),
    (b'["own"]', False),
    (b"own", False),
    (b"\xff\xfe", False),
    (b"", False),
)


async def test_the_model_in_the_body_chooses_the_upstream(tmp_path: Path) -> None:
    async with (
        fake_model(echo) as common,
        fake_model(echo) as other,
        running_proxy(
            common.url,
            {"OWN_KEY": "sk-own"},
            registry=registry(tmp_path, other),
            upstream={"api_key": "sk-common"},
        ) as proxy,
    ):
        for body, is_own in BODIES:
            await sent(proxy, raw("POST", "/v1/embeddings", body))

            received = (other if is_own else common).requests.pop()
            key = "sk-own" if is_own else "sk-common"
            assert received.body == body
            assert received.header("authorization") == f"Bearer {key}"
            assert common.requests == other.requests == []


async def test_a_body_made_to_cost_memory_is_not_parsed_to_find_its_model(tmp_path: Path) -> None:
    """A10 on the forwarded paths."""
    bomb = b'{"model": "own", "input": [' + b"{}," * 600_000 + b"{}]}"
    async with (
        fake_model(echo) as common,
        running_proxy(common.url, {"OWN_KEY": "k"}, registry=registry(tmp_path, common)) as proxy,
    ):
        answer = await sent(proxy, raw("POST", "/v1/embeddings", bomb))

    assert (answer.status, answer.error["code"]) == (400, "too_complex")
    assert common.requests == []
