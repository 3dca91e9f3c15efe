"""F6 and F8: what crosses the proxy in either direction, and what does not."""

import pytest

from tests.support.fake_model import COMPLETION, Line, Received, answer_json, polite
from tests.support.live import chat_body, chat_request
from tests.support.meeting import Meeting, meeting

pytestmark = pytest.mark.anyio

SENT = (
    "connection: keep-alive, x-auth",
    "x-auth: secret",
    "keep-alive: timeout=5",
    "te: trailers",
    "upgrade: h2c",
    "proxy-authorization: Basic x",
    "proxy-connection: keep-alive",
    "x-forwarded-for: 1.2.3.4",
    "x-forwarded-host: evil",
    "x-real-ip: 1.2.3.4",
    "forwarded: for=1.2.3.4",
    "cookie: a=b",
    "accept-encoding: gzip",
    "x-session-id: 7",
)


async def sent_on(they: Meeting, *headers: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return what the upstream and then the client is told in headers."""
    await they.client.send(chat_request(chat_body(), *headers))
    answer = await they.client.answer()
    assert answer.status == 200
    chat = next(r for r in reversed(they.model.requests) if r.method == "POST")
    return dict(chat.headers), answer.headers


async def test_f6_hop_by_hop_and_forged_headers_end_here() -> None:
    """F6: an allow-list; in pass-through the client's own authorization goes on."""
    async with meeting(polite) as they:
        got, _ = await sent_on(they, *SENT, "authorization: Bearer sk-mine")

    assert got == {
        "host": f"127.0.0.1:{they.model.port}",
        "authorization": "Bearer sk-mine",
        "content-type": "application/json",
        "content-length": str(len(chat_body())),
        "x-request-id": got["x-request-id"],
        "accept-encoding": "identity",
        "x-session-id": "7",
    }


async def test_f6_with_keys_of_our_own_the_client_s_is_never_sent_on() -> None:
    """F6."""
    settings = {"auth": {"keys": "sk-mine"}, "upstream": {"api_key": "sk-ours"}}
    async with meeting(polite, **settings) as they:
        got, _ = await sent_on(they, "authorization: Bearer sk-mine")

    assert got["authorization"] == "Bearer sk-ours"
    assert not any("sk-mine" in str(request.headers) for request in they.model.requests)


@pytest.mark.parametrize("given", ["a b", "a\tb", "<c>", "\xe4", "x" * 129, "a%0d%0ab:c"])
async def test_f6_a_request_id_that_could_do_harm_is_made_anew(given: str) -> None:
    """F6: one with a line break in it is no header at all, see F7."""
    async with meeting(polite) as they:
        got, answered = await sent_on(they, f"x-request-id: {given}")

    assert len(answered["x-request-id"]) == 32
    assert got["x-request-id"] == answered["x-request-id"]


async def test_f6_what_is_not_the_upstream_s_to_say_does_not_come_back() -> None:
    """F6."""

    async def talkative(_: Received, line: Line) -> None:
        headers = (
            "connection: keep-alive, x-hop",
            "x-hop: 1",
            "set-cookie: session=theirs",
            "server: fake",
            "alt-svc: h3",
            "x-chat-proxy-compaction: built",
            "x-request-id: theirs",
            "x-ratelimit-remaining: 9",
        )
        await answer_json(line, COMPLETION, 200, *headers)

    async with meeting(talkative) as they:
        _, answered = await sent_on(they, "x-request-id: mine")

    assert not {"x-hop", "set-cookie", "server", "alt-svc"} & set(answered)
    assert answered["x-chat-proxy-compaction"] == "none"
    assert answered["x-request-id"] == "mine"
    assert answered["x-upstream-request-id"] == "theirs"
    assert answered["x-ratelimit-remaining"] == "9"


SPLITTING = (
    b"x-split: a\nset-cookie: b",
    b"x-split: a\rset-cookie: b",
    b"x-split: a\r\n set-cookie: b",
    b"x-null: a\0b",
    b"x-control: a\x01b",
    b"x-latin: \xe4\xff",
    b"x bad: a",
    b": nameless",
)


@pytest.mark.parametrize("header", SPLITTING, ids=range(len(SPLITTING)))
async def test_f8_an_upstream_header_never_splits_the_answer(header: bytes) -> None:
    """F8: it is dropped, harmless, or the answer is a 502 of ours; never a 500."""

    async def odd(_: Received, line: Line) -> None:
        await line.send(b"HTTP/1.1 200 OK\r\n" + header + b"\r\ncontent-length: 7\r\n\r\n")
        await line.send(b'{"a":1}')

    async with meeting(odd) as they:
        answer = await they.ask()
        they.model.behaviour = polite
        after = await they.ask()

    assert answer.status in (200, 502)
    assert answer.status == 200 or answer.error["code"].startswith("upstream_")
    assert "set-cookie" not in answer.headers
    assert not any(set(value) & set("\r\n\0") for value in answer.headers.values())
    assert after.status == 200
