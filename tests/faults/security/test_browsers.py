"""F27: what a web page can make a browser do with a proxy on the same machine."""

import pytest

from chat_proxy.routes.forward import ALLOWED
from tests.faults.faulty import chats
from tests.support.fake_model import Line, Received, fake_model, polite
from tests.support.live import Proxy, RawAnswer, chat_body, raw_client, running_proxy

pytestmark = pytest.mark.anyio

HELD = {"api_key": "sk-ours"}
EVIL = "origin: https://evil.example"
FORMS = ("text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "")
POSTS = (
    "/v1/chat/completions",
    "/v1/chat/compact",
    "/v1/chat/explain",
    *(f"{path}x" if path.endswith("/") else path for path, it in ALLOWED.items() if "POST" in it),
    "/v1/audio/transcriptions",
    "/v1/images/edits",
)
EVERYWHERE = (
    ("GET", "/v1/models"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/chat/compact"),
    ("POST", "/v1/embeddings"),
    ("GET", "/v1/offload/" + "0" * 32),
    ("GET", "/metrics"),
    ("GET", "/dashboard"),
    ("GET", "/dashboard/data"),
)
FOREIGN = (
    "evil.example",
    "evil.example:8100",
    "127.0.0.1.evil.example",
    "evil.local",
    "localhost.evil.example",
    "evil.example.",
    "127.0.0.1:80@evil.example",
)
LOCAL = (
    "127.0.0.1:8100",
    "localhost:8100",
    "[::1]:8100",
    "chat-proxy",
    "a.localhost",
    "x.internal",
)


async def sent(
    proxy: Proxy, method: str, path: str, *headers: str, host: str = "127.0.0.1:8100"
) -> RawAnswer:
    """Send a request as a browser would, and return the answer."""
    body = chat_body() if method == "POST" else b""
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}", f"content-length: {len(body)}", *headers]
    async with raw_client(proxy) as client:
        await client.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return await client.answer()


def refusal(answer: RawAnswer) -> tuple[int, str | None]:
    return answer.status, answer.headers.get("x-chat-proxy-error")


@pytest.mark.parametrize("path", POSTS)
async def test_f27_a_form_of_a_foreign_page_reaches_no_upstream(path: str) -> None:
    """F27: forms need no leave of the browser's, so nothing that spends a key takes one."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        for form in FORMS:
            for origin in (EVIL, "origin: null", "sec-fetch-site: cross-site"):
                kind = [f"content-type: {form}"] if form else []
                answer = await sent(proxy, "POST", path, origin, *kind)
                assert refusal(answer) == (415, "unsupported_media_type"), (form, origin)

    assert model.requests == []


async def test_f27_an_upload_of_a_program_is_sent_on() -> None:
    """F27: files come as a form, but only browsers say where from."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        for path in ("/v1/audio/transcriptions", "/v1/images/edits"):
            answer = await sent(proxy, "POST", path, f"content-type: {FORMS[1]}")
            assert answer.status == 200

    assert len(chats(model)) == 2


@pytest.mark.parametrize("host", FOREIGN)
async def test_f27_a_page_that_rebinds_its_name_spends_no_key(host: str) -> None:
    """F27: on loopback with a key for the upstream, only local names are answered, everywhere."""
    async with fake_model(polite) as model, running_proxy(model.url, upstream=HELD) as proxy:
        for method, path in EVERYWHERE:
            answer = await sent(proxy, method, path, "content-type: application/json", host=host)
            assert refusal(answer) == (403, "strange_host"), path

    assert model.requests == []


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://evil.local", "app://x.y"]
)
async def test_f27_a_foreign_origin_spends_no_key(origin: str) -> None:
    """F27: also with JSON, for which a browser would have asked first."""
    async with fake_model(polite) as model, running_proxy(model.url, upstream=HELD) as proxy:
        for method, path in EVERYWHERE:
            headers = ("content-type: application/json", f"origin: {origin}")
            answer = await sent(proxy, method, path, *headers)
            assert refusal(answer) == (403, "strange_origin"), path

    assert model.requests == []


async def test_f27_programs_and_pages_of_this_machine_are_served() -> None:
    """F27: by every local name, from a page of this machine, and without any origin."""
    origins: tuple[list[str], ...] = (
        [],
        ["origin: http://localhost:3000"],
        ["origin: http://127.0.0.1:8100"],
    )
    async with fake_model(polite) as model, running_proxy(model.url, upstream=HELD) as proxy:
        for host in LOCAL:
            for origin in origins:
                kind = "content-type: application/json"
                answer = await sent(proxy, "POST", "/v1/chat/completions", kind, *origin, host=host)
                assert answer.status == 200, (host, origin)


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"upstream": HELD, "auth": {"keys": "two"}},
        {"upstream": HELD, "auth": {"allow_anonymous": True}},
        {"upstream": HELD, "auth": {"keys": "two"}, "server": {"host": "0.0.0.0"}},
    ],
    ids=["no key", "keys of our own", "told so", "for everybody"],
)
async def test_f27_where_no_page_can_spend_a_key_any_name_is_answered(
    sections: dict[str, dict[str, str]],
) -> None:
    """F27: a reverse proxy on the same machine passes its public name on."""
    async with fake_model(polite) as model, running_proxy(model.url, **sections) as proxy:
        answer = await sent(
            proxy, "GET", "/v1/models", "authorization: Bearer two", host="chat.example"
        )

    assert answer.status == 200


RUNNABLE = (
    "text/html",
    "Text/HTML; charset=utf-8",
    "image/svg+xml",
    "application/xhtml+xml",
    "text/xml",
    "application/atom+xml",
    "",
    "text/plain",
    "multipart/x-mixed-replace",
)


@pytest.mark.parametrize("kind", RUNNABLE)
@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/x", "/v1/chat/completions"])
async def test_f27_a_page_of_the_upstream_runs_no_script_here(kind: str, path: str) -> None:
    """F27: it would run in the dashboard's origin; the body is as it was."""
    page = b"<script>fetch('/dashboard/data')</script>"

    async def html(_: Received, line: Line) -> None:
        kinds = [f"content-type: {kind}"] if kind else []
        await line.head(404, f"content-length: {len(page)}", "x-content-type-options: no", *kinds)
        await line.send(page)

    async with fake_model(html) as model, running_proxy(model.url) as proxy:
        method = "POST" if path.endswith("completions") else "GET"
        answer = await sent(proxy, method, path)

    assert answer.body == page
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"].split("; ")


async def test_f27_json_and_streams_get_no_further_headers() -> None:
    """F27: they are no pages; what crosses stays as it is."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        for path in ("/v1/models", "/v1/chat/completions"):
            method = "POST" if path.endswith("completions") else "GET"
            answer = await sent(proxy, method, path)
            assert answer.status == 200
            assert "content-security-policy" not in answer.headers
