"""The front door: an id, a record and an answer for every request."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.proxy.services import Services
from chat_proxy.routes.chat import effective_mode
from chat_proxy.routes.forward import ALLOWED
from chat_proxy.server import create_app, endpoints_of
from tests.support.fake_model import Line, Received, fake_model, on_chat, polite
from tests.support.live import (
    Proxy,
    chat_body,
    chat_request,
    eventually,
    http_client,
    raw_client,
    running_proxy,
    settings,
)

UNKNOWN = [
    "/v1",
    "/v1/",
    "/v2/chat/completions",
    "/V1/chat/completions",
    "//v1/chat/completions",
    "/v1//chat/completions",
    "/v1/chat",
    "/v1/chat/completions/",
    "/v1/files",
    "/v1/load_lora_adapter",
    "/tokenize",
    "/health/",
    "/docs",
    "/redoc",
    "/openapi.json",
    "/docs/oauth2-redirect",
    "/favicon.ico",
    "/.env",
    "/v1/models/",
    "/v1/modelsx",
    "/v1/%00",
]


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@pytest.mark.anyio
async def test_unknown_paths_are_404_in_openais_shape() -> None:
    """F15: that includes the API's pages, which are off unless asked for."""
    async with running_proxy("http://127.0.0.1:1/v1") as proxy, http_client(proxy) as client:
        for method, path in product(METHODS, UNKNOWN):
            answer = await client.request(method, path)
            assert (path, answer.status_code) == (path, 404)
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-chat-proxy-error"] == "not_found"
            assert answer.headers["x-chat-proxy-compaction"] == "none"
            assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])
            assert "location" not in answer.headers
            if method == "HEAD":
                assert answer.content == b""
            else:
                assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.anyio
async def test_methods_that_a_path_does_not_know_are_405() -> None:
    """F17: an OPTIONS of a browser gets no CORS header."""
    paths = {
        "/v1/chat/completions": "POST",
        "/v1/models": "GET",
        "/v1/responses/resp_1": "DELETE, GET, POST",
        "/metrics": "GET",
    }
    async with running_proxy("http://127.0.0.1:1/v1") as proxy, http_client(proxy) as client:
        for method, path in product(("HEAD", "PUT", "PATCH", "OPTIONS"), paths):
            answer = await client.request(method, path, headers={"origin": "http://evil"})
            assert (path, answer.status_code) == (path, 405)
            assert answer.headers["x-chat-proxy-error"] == "method_not_allowed"
            assert answer.headers["allow"] == paths[path]
            assert "x-request-id" in answer.headers
            assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.anyio
async def test_an_unknown_path_is_not_shown_to_strangers() -> None:
    async with (
        running_proxy("http://127.0.0.1:1/v1", auth={"keys": "k"}) as proxy,
        http_client(proxy) as client,
    ):
        answers = [await client.get(path) for path in ("/v1/nothing", "/v1/models")]

    assert [answer.status_code for answer in answers] == [401, 401]
    assert answers[0].content == answers[1].content


HARMLESS = ("abc", "req-1.2_3:4", "x" * 128)
HOSTILE = (b"", b"x" * 129, b"a b", b"a\tb", b"\xff", b'"}', b"../x", b"<script>", b"a%0d%0ab")


@pytest.mark.anyio
async def test_a_harmless_request_id_is_kept() -> None:
    async with running_proxy("http://127.0.0.1:1/v1") as proxy, http_client(proxy) as client:
        for path, given in product(("/v1/chat/completions", "/health", "/nothing"), HARMLESS):
            answer = await client.get(path, headers={"x-request-id": given})
            assert answer.headers.get_list("x-request-id") == [given]


@pytest.mark.anyio
async def test_a_hostile_request_id_is_replaced() -> None:
    """F6."""
    async with running_proxy("http://127.0.0.1:1/v1") as proxy, raw_client(proxy) as client:
        for path, given in product((b"/v1/chat/completions", b"/health"), HOSTILE):
            head = b"GET %s HTTP/1.1\r\nhost: x\r\nx-request-id: %s\r\n\r\n"
            await client.send(head % (path, given))
            answer = await client.answer()
            assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])


@pytest.mark.anyio
async def test_the_upstream_gets_the_same_request_id() -> None:
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request())
        answer = await client.answer()

    sent = next(r for r in model.requests if r.method == "POST")
    assert sent.header("x-request-id") == answer.headers["x-request-id"]


# Modes


@pytest.mark.parametrize(
    ("configured", "asked", "mode"),
    [
        ("on", "", "on"),
        ("on", "off", "off"),
        ("on", " OFF ", "off"),
        ("on", "observe", "observe"),
        ("on", "nonsense", "on"),
        ("observe", "on", "observe"),
        ("observe", "off", "off"),
        ("observe", "observe", "observe"),
        ("off", "on", "off"),
        ("off", "observe", "off"),
    ],
)
def test_a_request_lowers_the_mode_but_never_raises_it(
    configured: str, asked: str, mode: str
) -> None:
    assert effective_mode(configured, asked.encode()) == mode


@pytest.mark.parametrize(
    ("configured", "seen"), [("on", "none"), ("observe", "none"), ("off", "off")]
)
@pytest.mark.anyio
async def test_an_answer_says_what_was_done_to_its_request(configured: str, seen: str) -> None:
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, mode=configured) as proxy,
        raw_client(proxy) as client,
    ):
        told = []
        for asked in ("on", "nonsense", "off"):
            await client.send(chat_request(chat_body(), f"x-chat-proxy-mode: {asked}"))
            told.append((await client.answer()).headers["x-chat-proxy-compaction"])

    assert told == [seen, seen, "off"]
    assert not any("x-chat-proxy-mode" in dict(r.headers) for r in model.requests)


# Forms


SIMPLE_TYPES = (
    "content-type: text/plain\r\n",
    "content-type: Text/Plain;charset=UTF-8\r\n",
    "content-type: application/x-www-form-urlencoded\r\n",
    "",
)
ORIGINS = (("origin: http://evil\r\n", 415), ("", 200))


@pytest.mark.anyio
async def test_what_any_web_page_can_send_is_refused() -> None:
    """A13: a page's form post, or a Blob without a type, needs no leave from us to be sent."""
    body = chat_body()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        for typed, (origin, status) in product(SIMPLE_TYPES, ORIGINS):
            async with raw_client(proxy) as client:
                await client.send(f"{head}{typed}{origin}\r\n".encode() + body)
                assert (await client.answer()).status == status


# What is held and counted


@pytest.mark.anyio
async def test_more_bytes_than_may_be_held_are_503_with_retry_after() -> None:
    """E7: admission by bytes in flight."""

    async def silent(received: Received, line: Line) -> None:
        await line.until_closed()

    async with (
        fake_model(on_chat(silent)) as model,
        running_proxy(model.url, limits={"max_inflight_bytes": 3_000}) as proxy,
        raw_client(proxy) as first,
        raw_client(proxy) as second,
    ):
        await first.send(chat_request(chat_body(user="x" * 2_000)))
        await eventually(lambda: proxy.services.admission.held_bytes > 2_000)
        await second.send(chat_request(chat_body(user="x" * 2_000)))
        refused = await second.answer()
        first.leave()
        await eventually(lambda: proxy.services.admission.held_bytes == 0)

    assert (refused.status, refused.error["code"]) == (503, "overloaded")
    assert refused.headers["retry-after"] == "1"


# Mistakes of our own


class Broken:
    """A part that fails whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("secret inside")


@contextmanager
def broken(services: Services, path: str) -> Iterator[None]:
    """Exchange a part for one that fails, until the block ends."""
    *groups, name = path.split(".")
    holder: object = services
    for group in groups:
        holder = getattr(holder, group)
    kept = getattr(holder, name)
    object.__setattr__(holder, name, Broken())
    try:
        yield
    finally:
        object.__setattr__(holder, name, kept)


def fail(*_: object) -> None:
    raise RuntimeError("secret inside")


async def chat(proxy: Proxy, times: int = 2) -> list[Any]:
    """Send requests over one connection."""
    async with raw_client(proxy) as client:
        answers = []
        for _ in range(times):
            await client.send(chat_request())
            answers.append(await client.answer())
        return answers


@pytest.mark.anyio
async def test_a_request_is_answered_although_it_cannot_be_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E10."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        monkeypatch.setattr(proxy.services.metrics, "observe", fail)
        answers = await chat(proxy)

    assert [answer.status for answer in answers] == [200, 200]


@pytest.mark.anyio
async def test_a_request_is_answered_although_nothing_can_be_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E10."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        monkeypatch.setattr("chat_proxy.telemetry.logs._WRITER._line", fail)
        monkeypatch.setattr("chat_proxy.telemetry.logs._WRITER.level", 0)
        answers = await chat(proxy)

    assert [answer.status for answer in answers] == [200, 200]


@pytest.mark.parametrize("part", ["model_routes", "forwarding.upstream"])
@pytest.mark.anyio
async def test_a_mistake_of_ours_is_a_500_without_its_inside(part: str) -> None:
    """E10, F14."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        with broken(proxy.services, part):
            answers = await chat(proxy)

    for answer in answers:
        assert (answer.status, answer.error["code"]) == (500, "internal_error")
        assert "secret" not in answer.body.decode()
        assert "Traceback" not in answer.body.decode()


@pytest.mark.parametrize(
    "part", ["sizing.model_sizings", "sizing.tokenizers", "sizing.calibrations"]
)
@pytest.mark.anyio
async def test_a_request_that_cannot_be_measured_passes_all_the_same(part: str) -> None:
    """DESIGN §1 rule 6: features fail open."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        with broken(proxy.services, part):
            answers = await chat(proxy)

    assert [answer.status for answer in answers] == [200, 200]
    assert answers[0].headers["x-chat-proxy-compaction"] == "failed-open"


@pytest.mark.anyio
async def test_a_mistake_on_an_operators_page_is_a_500_in_the_same_shape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_proxy("http://127.0.0.1:1/v1") as proxy, http_client(proxy) as client:
        monkeypatch.setattr(proxy.services.metrics, "render", fail)
        answer = await client.get("/metrics")

    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert "secret" not in answer.text
    assert "x-request-id" in answer.headers


# The table of routes

OWN = {"/health", "/healthz", "/livez", "/readyz", "/metrics", "/dashboard{rest:path}"}


def test_there_is_no_route_that_this_list_does_not_know() -> None:
    """F9: a new route must be added here, with a look at what it lets out."""
    chosen = settings()
    app = create_app(chosen)
    assert paths_of(app.routes) == OWN
    assert set(endpoints_of(chosen, app.state.services)) == {
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/chat/compact",
        "/v1/chat/explain",
        "/v1/chat/history/",
        "/v1/messages/count_tokens",
        "/v1/responses/compact",
        "/v1/offload/",
        *ALLOWED,
    }
    assert set(ALLOWED) == {
        "/v1/models",
        "/v1/models/",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/moderations",
        "/v1/rerank",
        "/v1/score",
        "/v1/responses/",
        "/v1/messages/",
        "/v1/audio/",
        "/v1/images/",
    }


def paths_of(routes: list[Any]) -> set[str]:
    """Every path, those of included routers too."""
    paths: set[str] = set()
    for route in routes:
        inner = getattr(route, "original_router", None)
        paths |= paths_of(inner.routes) if inner else {route.path}
    return paths


@pytest.mark.anyio
async def test_a_model_s_own_mode_goes_before_the_common_one(tmp_path: Path) -> None:
    registry = tmp_path / "registry.json"
    registry.write_text(json.dumps([{"name": "fake", "overrides": {"mode": "off"}}]))
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, registry={"file": str(registry)}) as proxy,
        http_client(proxy) as client,
    ):
        own = await client.post("/v1/chat/completions", content=chat_body())
        other = await client.post("/v1/chat/completions", content=chat_body(model="other"))

    assert own.headers["x-chat-proxy-compaction"] == "off"
    assert "x-chat-proxy-tokens-before" not in own.headers
    assert other.headers["x-chat-proxy-compaction"] == "none"
