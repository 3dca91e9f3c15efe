"""F9 and F17: a request never chooses where it goes, and no other origin reads the answer."""

import json
from itertools import product

import pytest

from chat_proxy.routes.count_tokens import CountTokens
from chat_proxy.routes.forward import ALLOWED
from chat_proxy.server import create_app, endpoints_of
from tests.journeys.summaries.talking import turns
from tests.support.fake_model import fake_model, polite
from tests.support.live import http_client, raw_client, running_proxy, settings
from tests.support.wire_model import PATHS

pytestmark = pytest.mark.anyio

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


async def test_f9_a_request_never_chooses_its_destination() -> None:
    """F9: on every route, by fields and by headers; the key goes where the configuration says."""
    async with (
        fake_model(polite) as evil,
        fake_model(polite) as model,
        running_proxy(model.url, upstream={"api_key": "sk-ours"}) as proxy,
        http_client(proxy) as client,
    ):
        fields = json.loads(json.dumps(ELSEWHERE).replace("evil", f"127.0.0.1:{evil.port}"))
        routes = [("POST", path) for path in (*PATHS.values(), CountTokens.route)]
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


@pytest.mark.parametrize("path", ["/v1/chat/compact", "/v1/chat/explain"])
async def test_f9_nor_does_a_request_to_the_proxy_itself(path: str) -> None:
    """F9: a side-query goes where the configuration says."""
    async with (
        fake_model(polite) as evil,
        fake_model(polite) as model,
        running_proxy(model.url, upstream={"api_key": "sk-ours"}) as proxy,
        http_client(proxy) as client,
    ):
        fields = json.loads(json.dumps(ELSEWHERE).replace("evil", f"127.0.0.1:{evil.port}"))
        body = {**fields, "model": "fake", "messages": turns(3)}
        await client.post(path, json=body, headers=HEADERS)

    assert evil.connections == 0
    assert {request.header("authorization") for request in model.requests} == {"Bearer sk-ours"}


def test_f9_every_route_is_one_of_those_above() -> None:
    """F9: a new route must be put to these tests, and then into this list."""
    chosen = settings()
    endpoints = endpoints_of(chosen, create_app(chosen).state.services)

    assert set(endpoints) - set(ALLOWED) == {
        *PATHS.values(),
        CountTokens.route,
        "/v1/chat/compact",
        "/v1/chat/explain",
        "/v1/offload/",
        "/v1/chat/history/",
        "/v1/responses/compact",
    }


OTHER_FORMS = (
    "http://evil/v1/chat/completions",
    "//evil/v1/models",
    "evil:443",
    "*",
    "http://evil/",
)


async def test_f9_a_request_line_with_another_server_is_refused() -> None:
    """F9: absolute and authority form."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        for method, target in product(("GET", "POST", "OPTIONS", "CONNECT"), OTHER_FORMS):
            async with raw_client(proxy) as client:
                await client.send(f"{method} {target} HTTP/1.1\r\nhost: evil\r\n\r\n".encode())
                answer = await client.answer()
            assert answer.status in (400, 404)
            assert set(answer.error) == {"message", "type", "param", "code"}

    assert model.requests == []


async def test_f9_f15_a_host_s_name_is_never_given_back() -> None:
    """F9, F15: no redirect to what the Host header says."""
    async with running_proxy("http://127.0.0.1:1/v1") as proxy, http_client(proxy) as client:
        for path in ("/health/", "/metrics/", "/v1/models/", "/v1/chat/completions/", "/docs/"):
            answer = await client.get(path, headers={"host": "evil"})
            assert answer.status_code == 404
            assert "evil" not in str(answer.headers) + answer.text


async def test_f17_no_page_of_another_origin_may_read_an_answer() -> None:
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
