"""Rows F6 and F8: what crosses the proxy in either direction, and what does not."""

import httpx
import pytest

from chat_proxy.http.client.dialler import target_of
from chat_proxy.http.client.pool import request_message
from chat_proxy.http.headers import value_of
from chat_proxy.upstream.client import Call, framed
from chat_proxy.upstream.header_rules import answered, forwarded_headers
from tests.support.fake_model import COMPLETION, Line, Received, answer_json, polite
from tests.support.live import chat_body, chat_request
from tests.support.meeting import meeting

JSON = (b"content-type", b"application/json")


def names(headers: object) -> list[bytes]:
    return [name for name, _ in headers]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name",
    [
        b"accept",
        b"content-type",
        b"user-agent",
        b"traceparent",
        b"tracestate",
        b"baggage",
        b"idempotency-key",
        b"openai-organization",
        b"anthropic-version",
        b"x-stainless-lang",
        b"x-session-id",
        b"http-referer",
    ],
)
def test_what_clients_say_about_a_request_is_sent_on(name: bytes) -> None:
    assert list(forwarded_headers([(name, b"v")])) == [(name, b"v")]


@pytest.mark.parametrize(
    "name",
    [
        b"host",
        b"connection",
        b"keep-alive",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"expect",
        b"content-length",
        b"accept-encoding",
        b"cookie",
        b"cookie2",
        b"authorization",
        b"x-api-key",
        b"forwarded",
        b"via",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-real-ip",
        b"x-request-id",
        b"x-original-url",
        b"x-chat-proxy-mode",
        b"origin",
        b"range",
        b"unknown",
    ],
)
def test_everything_else_stays_here(name: bytes) -> None:
    assert list(forwarded_headers([(name, b"v")])) == []


def test_what_connection_names_stays_here() -> None:
    """F6."""
    headers = [
        (b"connection", b"close, X-Auth"),
        (b"x-auth", b"secret"),
        (b"connection", b"x-other"),
        (b"x-other", b"1"),
        (b"x-kept", b"1"),
    ]

    assert names(forwarded_headers(headers)) == [b"x-kept"]


@pytest.mark.parametrize(
    "name",
    [
        b"Connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",
        b"Set-Cookie",
        b"alt-svc",
        b"date",
        b"server",
        b"x-chat-proxy-error",
        b"X-Chat-Proxy-Compaction",
        b"Access-Control-Allow-Origin",
        b"access-control-allow-credentials",
    ],
)
def test_what_is_not_the_upstream_s_to_say_does_not_come_back(name: bytes) -> None:
    """F6, F17: no web page may read an answer because the upstream allows it."""
    assert list(answered([JSON, (name, b"v")])) == [JSON]


def test_what_the_upstream_s_connection_names_does_not_come_back() -> None:
    """F6."""
    headers = [JSON, (b"connection", b"X-Hop"), (b"x-hop", b"1"), (b"x-kept", b"1")]

    assert list(answered(headers)) == [JSON, (b"x-kept", b"1")]


def test_the_upstream_s_request_id_has_another_name() -> None:
    renamed = (b"x-upstream-request-id", b"theirs")

    assert list(answered([JSON, (b"X-Request-Id", b"theirs")])) == [JSON, renamed]


@pytest.mark.parametrize(
    ("kinds", "is_data"),
    [
        ([b"application/json"], True),
        ([b"application/json; charset=utf-8"], True),
        ([b"text/event-stream"], True),
        ([b"audio/mpeg"], True),
        ([b"image/png"], True),
        ([b"image/svg+xml"], False),
        ([b"text/html"], False),
        ([b"application/json, text/html"], False),
        ([b"application/json", b"text/html"], False),
        ([], False),
    ],
)
def test_only_what_is_data_to_a_browser_comes_back_unmarked(
    kinds: list[bytes], is_data: bool
) -> None:
    """F27."""
    marked = dict(answered([(b"content-type", kind) for kind in kinds]))

    assert (b"x-content-type-options" not in marked) is is_data
    assert (b"content-security-policy" not in marked) is is_data


def test_the_first_value_of_a_header_counts() -> None:
    headers = [(b"a", b"1"), (b"a", b"2")]

    assert (value_of(headers, b"a"), value_of(headers, b"b")) == (b"1", b"")


def test_a_call_is_framed_by_us() -> None:
    post = Call("POST", "http://m/v1", "/x", [], b"")
    get = Call("GET", "http://m/v1", "/x", [])

    assert framed(post) == [(b"accept-encoding", b"identity"), (b"content-length", b"0")]
    assert framed(get) == [(b"accept-encoding", b"identity")]


@pytest.mark.parametrize("value", [b"a\r\nx: b", b"a\nx: b", b"a\0", b"\n"])
def test_no_header_can_bring_another(value: bytes) -> None:
    target = target_of(httpx.URL("http://m/v1/x"))

    with pytest.raises(httpx.LocalProtocolError):
        request_message("POST", target, [(b"x-a", value)], b"body\n")


@pytest.mark.anyio
async def test_headers_cross_as_they_should() -> None:
    """F6, on sockets."""

    async def behave(received: Received, line: Line) -> None:
        await answer_json(
            line,
            COMPLETION,
            200,
            "x-request-id: theirs",
            "x-ratelimit-remaining: 9",
            "set-cookie: session=theirs",
            "connection: keep-alive, x-hop",
            "x-hop: 1",
            "server: fake",
        )

    sent = (
        "cookie: a=b",
        "x-forwarded-for: 1.2.3.4",
        "x-request-id: my-id",
        "connection: x-private",
        "x-private: 1",
        "te: trailers",
        "accept-encoding: gzip",
        "authorization: Bearer sk-mine",
        "x-session-id: 7",
    )
    async with meeting(behave) as they:
        await they.client.send(chat_request(chat_body(), *sent))
        answer = await they.client.answer()

    got = dict(next(r for r in they.model.requests if r.method == "POST").headers)
    assert got == {
        "host": f"127.0.0.1:{they.model.port}",
        "authorization": "Bearer sk-mine",
        "content-type": "application/json",
        "content-length": str(len(chat_body())),
        "x-request-id": "my-id",
        "accept-encoding": "identity",
        "x-session-id": "7",
    }
    assert answer.headers["x-request-id"] == "my-id"
    assert answer.headers["x-upstream-request-id"] == "theirs"
    assert answer.headers["x-ratelimit-remaining"] == "9"
    assert not {"set-cookie", "x-hop", "server"} & set(answer.headers)


@pytest.mark.anyio
async def test_one_tenant_s_cookie_is_never_sent_for_another() -> None:
    """BUGS 50."""

    async def set_cookies(received: Received, line: Line) -> None:
        await answer_json(line, COMPLETION, 200, "set-cookie: session=of-a; Path=/")

    async with meeting(set_cookies) as they:
        for tenant in ("a", "b", "a"):
            await they.client.send(chat_request(chat_body(), f"authorization: Bearer {tenant}"))
            answer = await they.client.answer()
            assert "set-cookie" not in answer.headers

    assert all(request.header("cookie") is None for request in they.model.requests)


@pytest.mark.anyio
async def test_a_dangerous_request_id_is_replaced() -> None:
    """F6."""
    async with meeting(polite) as they:
        await they.client.send(chat_request(chat_body(), "x-request-id: a b\t<c>"))
        answer = await they.client.answer()

    ours = answer.headers["x-request-id"]
    sent = next(r for r in they.model.requests if r.method == "POST")
    assert len(ours) == 32
    assert sent.header("x-request-id") == ours
