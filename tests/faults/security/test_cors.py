"""F17: which web pages may read answers: none, unless the operator names their origins."""

from typing import Any

import pytest

from tests.support.command import run_command
from tests.support.fake_model import Line, Received, answer_json, fake_model, polite
from tests.support.live import Proxy, RawAnswer, chat_body, raw_client, running_proxy

pytestmark = pytest.mark.anyio

PAGE = "https://chat.example"
SERVER = {"cors_origins": f"{PAGE},http://localhost:3000"}
STRANGERS = (
    "https://evil.example",
    "http://chat.example",
    "https://chat.example:444",
    "https://chat.example.evil.example",
    "https://sub.chat.example",
    "HTTPS://CHAT.EXAMPLE",
    "null",
    "*",
)
PREFLIGHT = (
    "access-control-request-method: POST",
    "access-control-request-headers: authorization,content-type,x-stainless-os",
)


async def sent(proxy: Proxy, method: str, path: str, *headers: str) -> RawAnswer:
    """Send a request and return its answer."""
    body = chat_body() if method == "POST" else b""
    lines = [f"{method} {path} HTTP/1.1", "host: proxy", f"content-length: {len(body)}", *headers]
    lines.append("connection: close")  # the end of an answer without a body and a length
    async with raw_client(proxy) as client:
        await client.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return await client.answer()


def cors_of(answer: RawAnswer) -> dict[str, str]:
    return {name: it for name, it in answer.headers.items() if name.startswith("access-control-")}


async def open_handed(received: Received, line: Line) -> None:
    """Answer with leave for everybody, which is not the upstream's to give."""
    if received.target.startswith("/v1/models"):
        await polite(received, line)
    else:
        await answer_json(line, {"ok": True}, 200, "access-control-allow-origin: *")


async def test_f17_without_origins_no_page_reads_anything() -> None:
    """F17: neither a preflight nor an answer gives leave."""
    async with fake_model(open_handed) as model, running_proxy(model.url) as proxy:
        asked = await sent(proxy, "OPTIONS", "/v1/models", f"origin: {PAGE}", *PREFLIGHT)
        answers = [
            await sent(proxy, "GET", "/v1/models", f"origin: {PAGE}"),
            await sent(
                proxy,
                "POST",
                "/v1/chat/completions",
                f"origin: {PAGE}",
                "content-type: application/json",
            ),
        ]

    assert asked.status == 405
    assert [cors_of(answer) for answer in (asked, *answers)] == [{}] * 3


async def test_f17_a_page_that_is_named_may_ask_and_read() -> None:
    """F17: the preflight is answered without a key; nothing of it goes upstream."""
    async with (
        fake_model(open_handed) as model,
        running_proxy(model.url, server=SERVER, auth={"keys": "two"}) as proxy,
    ):
        path = "/v1/chat/completions"
        asked = await sent(proxy, "OPTIONS", path, f"origin: {PAGE}", *PREFLIGHT)
        none_sent = list(model.requests)
        key, kind = "authorization: Bearer two", "content-type: application/json"
        answer = await sent(proxy, "POST", path, f"origin: {PAGE}", key, kind)
        refused = await sent(proxy, "POST", path, f"origin: {PAGE}", kind)

    assert (asked.status, asked.body, none_sent) == (204, b"", [])
    assert asked.headers["access-control-allow-origin"] == PAGE
    assert asked.headers["access-control-allow-methods"] == "POST"
    allowed = asked.headers["access-control-allow-headers"].split(",")
    assert allowed == ["authorization", "content-type", "x-stainless-os"]
    assert "access-control-allow-credentials" not in asked.headers
    for each, status in ((answer, 200), (refused, 401)):
        assert each.status == status
        assert each.headers["access-control-allow-origin"] == PAGE
        assert each.headers["access-control-expose-headers"] == "*"
        assert each.headers["vary"].lower() == "origin"


@pytest.mark.parametrize("origin", STRANGERS)
async def test_f17_origins_are_compared_whole(origin: str) -> None:
    """F17: another scheme, port, case or name is another origin."""
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, server=SERVER) as proxy,
    ):
        asked = await sent(proxy, "OPTIONS", "/v1/models", f"origin: {origin}", *PREFLIGHT)
        answer = await sent(proxy, "GET", "/v1/models", f"origin: {origin}")

    assert (asked.status, answer.status) == (405, 200)
    assert cors_of(asked) == cors_of(answer) == {}


async def test_f17_f27_a_page_that_is_named_may_use_the_key_and_upload() -> None:
    """F17, F27: it is no foreign page; others stay so."""
    held: dict[str, Any] = {"server": SERVER, "upstream": {"api_key": "sk-ours"}}
    path, form = "/v1/audio/transcriptions", "content-type: multipart/form-data; boundary=x"
    async with fake_model(polite) as model, running_proxy(model.url, **held) as proxy:
        own = await sent(proxy, "POST", path, f"origin: {PAGE}", form)
        foreign = await sent(proxy, "POST", path, "origin: https://evil.example", form)

    assert (own.status, foreign.status) == (200, 403)


@pytest.mark.parametrize("given", ["a b", "x\u00e4", "<x>", "x" * 5_000])
async def test_f17_strange_names_of_headers_are_not_repeated(given: str) -> None:
    """F17: the answer to a preflight repeats names of headers and nothing else."""
    asking = ("access-control-request-method: GET", f"access-control-request-headers: {given}")
    async with fake_model(polite) as model, running_proxy(model.url, server=SERVER) as proxy:
        asked = await sent(proxy, "OPTIONS", "/v1/models", f"origin: {PAGE}", *asking)

    assert asked.status == 204
    assert "access-control-allow-headers" not in asked.headers


@pytest.mark.parametrize("origins", ["*", "chat.example", "https://chat.example/", "null"])
async def test_f17_what_is_no_origin_stops_the_start(origins: str) -> None:
    """F17: never `*`; one line, exit 2."""
    ended = await run_command("serve", SERVER_CORS_ORIGINS=origins)

    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
    assert "CHAT_PROXY_SERVER_CORS_ORIGINS" in ended.err
