"""F28: no header and no spelling of a path gives a request a second meaning behind us."""

import pytest

from tests.support.command import run_command
from tests.support.fake_model import COMPLETION, Line, Received, answer_json, fake_model, polite
from tests.support.live import (
    Proxy,
    RawAnswer,
    chat_body,
    chat_request,
    raw_client,
    running_proxy,
)

pytestmark = pytest.mark.anyio

REWRITING = (
    "x-rewrite-url",
    "x-original-url",
    "x-override-url",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-remote-user",
    "x-remote-addr",
    "x-auth-request-user",
    "x-auth-request-access-token",
    "x-authenticated-user",
    "x-webauth-user",
    "x-consumer-username",
    "x-ms-client-principal",
    "x-goog-authenticated-user-email",
    "x-amzn-oidc-identity",
    "x-accel-redirect",
    "x-sendfile",
    "x-forwarded",
    "x-host",
    "x-http-host-override",
    "x-cluster-client-ip",
    "x-true-client-ip",
    "x-middleware-subrequest",
    "x-client-cert",
    "x-ssl-client-verify",
)
SERVING = ("x-accel-redirect", "x-accel-expires", "x-sendfile", "x-reproxy-url")


@pytest.mark.parametrize("name", REWRITING)
async def test_f28_a_header_that_servers_obey_ends_here(name: str) -> None:
    """F28: another path, another method, another user: the upstream hears of none."""
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request(chat_body(), f"{name}: /v1/load_lora_adapter", "x-own: 1"))
        assert (await client.answer()).status == 200

    chat = model.requests[-1]
    assert chat.header("x-own") == "1"
    assert not any("lora" in value for received in model.requests for _, value in received.headers)


@pytest.mark.parametrize("name", SERVING)
async def test_f28_an_answer_makes_no_server_before_us_serve_a_file(name: str) -> None:
    """F28: nginx would serve the path that such an answer names; how it buffers is harmless."""

    async def redirecting(_: Received, line: Line) -> None:
        await answer_json(line, COMPLETION, 200, f"{name}: /etc/passwd", "x-accel-buffering: no")

    async with (
        fake_model(redirecting) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request())
        answer = await client.answer()

    assert name not in answer.headers
    assert answer.headers["x-accel-buffering"] == "no"


SPELLINGS = ("/%761/models/x", "/v%31/models/x", "/v1/%6Dodels/x", "/v1/models/%78")


@pytest.mark.parametrize("path", SPELLINGS)
async def test_f28_a_path_is_the_same_in_every_spelling(path: str) -> None:
    """F28: a letter that is written as an escape is that letter, and is sent on as a letter."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        answer = await got(proxy, path)

    assert answer.status == 200
    assert [received.target for received in model.requests] == ["/v1/models/x"]


@pytest.mark.parametrize("path", ["/v1/models", "/%761/models", "/v1/%6dodels"])
async def test_f28_the_limit_of_connections_holds_in_every_spelling(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F28: health checks are let in beyond it, and nothing that only looks like another path."""
    monkeypatch.setattr("chat_proxy.cli.serve.most_connections", lambda: 1)
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as first,
    ):
        await first.send(chat_request())
        assert (await first.answer()).status == 200
        asked = len(model.requests)
        refused, health = await got(proxy, path), await got(proxy, "/health")

    assert (refused.status, health.status) == (503, 200)
    assert len(model.requests) == asked


async def test_f28_what_is_added_to_summary_requests_is_not_printed() -> None:
    """F28, F13: fields for a vendor may hold keys; that there are some is told."""
    extra = '{"user": "ops", "vendor": {"token": "sk-canary"}}'
    told = await run_command("check-config", "--no-probe", SUMMARY_EXTRA_BODY=extra)
    empty = await run_command("check-config", "--no-probe")
    wrong = await run_command("check-config", "--no-probe", SUMMARY_EXTRA_BODY='["sk-canary"]')

    assert "CHAT_PROXY_SUMMARY_EXTRA_BODY=***  # set" in told.out.splitlines()
    assert "CHAT_PROXY_SUMMARY_EXTRA_BODY={}" in empty.out.splitlines()
    assert wrong.code == 2
    assert "canary" not in told.out + told.err + wrong.out + wrong.err


async def got(proxy: Proxy, path: str) -> RawAnswer:
    """Ask for a path on a connection of its own."""
    async with raw_client(proxy) as client:
        await client.send(f"GET {path} HTTP/1.1\r\nhost: proxy\r\n\r\n".encode())
        return await client.answer()
