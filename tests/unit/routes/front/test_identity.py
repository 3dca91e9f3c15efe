"""Who may use the proxy, as whom, and what the upstream learns of it."""

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.errors import BadConfiguration, InvalidApiKey
from chat_proxy.proxy.routing.caller import ANONYMOUS_TENANT
from chat_proxy.routes.front.identity import REMEMBERED_BYTES, REMEMBERED_CALLERS, AdminGate, Gate
from chat_proxy.wiring import is_loopback, make_services, refuse_to_expose_keys
from tests.support.fake_model import FakeModel, fake_model, polite
from tests.support.live import (
    Proxy,
    RawAnswer,
    chat_body,
    chat_request,
    raw_client,
    running_proxy,
    settings,
)


async def asked(proxy: Proxy, *headers: str) -> RawAnswer:
    """Send one chat request with these headers."""
    async with raw_client(proxy) as client:
        await client.send(chat_request(chat_body(), *headers))
        return await client.answer()


def identity_seen(model: FakeModel) -> list[tuple[str, str]]:
    """What the upstream was told about the caller of the last chat request."""
    told = ("authorization", "x-api-key", "cookie", "api-key", "proxy-authorization")
    request = [r for r in model.requests if r.method == "POST"][-1]
    return [header for header in request.headers if header[0] in told]


@pytest.mark.anyio
async def test_without_keys_of_our_own_the_clients_key_passes() -> None:
    carried = (
        ("authorization", "Bearer sk-client"),
        ("authorization", "Basic eDp5"),
        ("x-api-key", "sk-client"),
    )
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        for name, value in carried:
            answer = await asked(proxy, f"{name}: {value}", "cookie: a=b")
            assert answer.status == 200
            assert identity_seen(model) == [(name, value)]


@pytest.mark.anyio
async def test_an_upstream_key_replaces_the_clients() -> None:
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, upstream={"api_key": "sk-ours"}) as proxy,
    ):
        answer = await asked(proxy, "authorization: Bearer sk-client", "x-api-key: sk-client")

    assert answer.status == 200
    assert identity_seen(model) == [("authorization", "Bearer sk-ours")]


OURS = (
    ["authorization: Bearer two"],
    ["authorization: bearer  two "],
    ["x-api-key: two"],
    ["authorization: Bearer two", "x-api-key: two"],
)


@pytest.mark.anyio
@pytest.mark.parametrize("upstream", [{}, {"api_key": "sk-ours"}])
async def test_one_of_our_keys_lets_in_and_is_never_sent_on(upstream: dict[str, str]) -> None:
    seen = [("authorization", f"Bearer {key}") for key in upstream.values()]
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, auth={"keys": "one,two"}, upstream=upstream) as proxy,
    ):
        for headers in OURS:
            answer = await asked(proxy, *headers, "cookie: key=two")
            assert answer.status == 200
            assert identity_seen(model) == seen

    assert not any("two" in value for r in model.requests for _, value in r.headers)


LONG = "k" * 40
STRANGERS: tuple[list[str], ...] = (
    [],
    ["authorization:"],
    ["authorization: Bearer"],
    ["authorization: Bearer wrong"],
    ["authorization: Basic two"],
    ["authorization: Bearer TWO"],
    ["authorization: Bearer two two"],
    ["authorization: Bearer two,one"],
    ["authorization: Bearer ' OR 1=1 --"],
    ["authorization: Bearer \N{SUPERSCRIPT TWO}"],
    ["authorization: Bearer tw\xf6"],
    ["authorization: Bearer one", "x-api-key: two"],
    ["authorization: Bearer two", "authorization: Bearer wrong"],
    ["x-api-key: two", "x-api-key: wrong"],
    ["cookie: api_key=two; authorization=two"],
    ["api-key: two"],
    ["proxy-authorization: Bearer two"],
    [f"authorization: Bearer {LONG}B"],
    [f"authorization: Bearer {LONG}"],
    ["authorization: Bearer " + "x" * 16_000],
)


@pytest.mark.anyio
async def test_anything_else_is_refused() -> None:
    """F2, F3: nothing but a whole key in one of two headers counts."""
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, auth={"keys": f"one,two,{LONG}A"}) as proxy,
    ):
        for headers in STRANGERS:
            answer = await asked(proxy, *headers)
            assert (headers, answer.status) == (headers, 401)
            assert answer.error["code"] == "invalid_api_key"
            assert answer.headers["x-chat-proxy-error"] == "invalid_api_key"

    assert model.requests == []


@pytest.mark.anyio
async def test_different_keys_at_once_are_refused_in_pass_through_too() -> None:
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        answer = await asked(proxy, "authorization: Bearer one", "x-api-key: two")

    assert answer.status == 401
    assert model.requests == []


@pytest.mark.anyio
@pytest.mark.parametrize("auth", [{}, {"keys": "one,two"}])
async def test_a_key_in_the_address_is_refused(auth: dict[str, str]) -> None:
    """F2: addresses end up in logs; also when a good key is in the header."""
    queries = ("api_key=two", "api-key=two", "x=1&key=two", "ACCESS_TOKEN=two", "api%5Fkey=two")
    request = chat_request(chat_body(), "authorization: Bearer two")
    async with fake_model(polite) as model, running_proxy(model.url, auth=auth) as proxy:
        for query in queries:
            async with raw_client(proxy) as client:
                await client.send(request.replace(b" HTTP/1.1", f"?{query} HTTP/1.1".encode(), 1))
                answer = await client.answer()
            assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
            assert "two" not in answer.body.decode()

    assert model.requests == []


@pytest.mark.anyio
async def test_a_key_that_is_no_header_never_reaches_the_gate() -> None:
    """F2: a NUL, a megabyte."""
    head, _, body = chat_request().partition(b"\r\n\r\n")
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, auth={"keys": "two"}) as proxy,
    ):
        for value, status in ((b"tw\0o", 400), (b"x" * 2**20, 431)):
            async with raw_client(proxy) as client:
                await client.send(head + b"\r\nx-api-key: " + value + b"\r\n\r\n" + body)
                assert (await client.answer()).status == status

    assert model.requests == []


def test_the_tenant_is_the_hash_of_the_whole_key() -> None:
    """F3: keys that share their first 40 characters are two tenants."""
    first, second = (LONG + end for end in "AB")
    for gate in (Gate([]), Gate([first, second])):
        tenants = [gate.caller([(b"x-api-key", key.encode())]).tenant for key in (first, second)]

        assert tenants == [hashlib.sha256(key.encode()).hexdigest() for key in (first, second)]


def test_the_scheme_and_the_header_do_not_make_another_tenant() -> None:
    gate = Gate([])
    forms = [(b"authorization", b"Bearer k"), (b"authorization", b"bearer k"), (b"x-api-key", b"k")]

    assert len({gate.caller([form]).tenant for form in forms}) == 1


@pytest.mark.parametrize(
    "headers", [[], [(b"authorization", b"")], [(b"authorization", b"Bearer ")]]
)
def test_nobody_is_anonymous(headers: list[tuple[bytes, bytes]]) -> None:
    caller = Gate([]).caller(headers)

    assert (caller.tenant, caller.credentials) == (ANONYMOUS_TENANT, [])


def test_every_key_is_compared_whole_and_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """F2: neither the first match nor a short key ends the comparison early."""
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def counting(given: bytes, known: bytes) -> bool:
        compared.append((len(given), len(known)))
        return compare(given, known)

    monkeypatch.setattr("chat_proxy.routes.front.identity.hmac.compare_digest", counting)

    Gate(["one", "two", "three"]).caller([(b"x-api-key", b"one")])

    assert compared == [(32, 32)] * 3


def test_a_caller_who_comes_again_is_the_same_and_a_stranger_is_still_refused() -> None:
    gate = Gate(["one"])
    known, stranger = [(b"x-api-key", b"one")], [(b"x-api-key", b"two")]
    first = gate.caller(known)

    for _ in range(2):
        assert gate.caller(known) is first
        with pytest.raises(InvalidApiKey):
            gate.caller(stranger)
    with pytest.raises(InvalidApiKey):
        gate.caller(known + stranger)
    with pytest.raises(InvalidApiKey):
        gate.caller(known, b"api_key=one")


def test_only_so_many_callers_are_remembered_and_no_endless_key() -> None:
    gate = Gate([])
    endless = [(b"x-api-key", b"k" * (REMEMBERED_BYTES + 1))]
    assert gate.caller(endless) == gate.caller(endless)
    assert gate.caller(endless) is not gate.caller(endless)

    callers = [gate.caller([(b"x-api-key", b"%d" % n)]) for n in range(REMEMBERED_CALLERS + 1)]

    assert len({caller.tenant for caller in callers}) == REMEMBERED_CALLERS + 1
    assert gate.caller([(b"x-api-key", b"%d" % REMEMBERED_CALLERS)]) is callers[-1]
    assert gate.caller([(b"x-api-key", b"0")]) is not callers[0]


def test_the_admin_key_guards_and_none_leaves_open() -> None:
    AdminGate(None).check([])
    AdminGate("admin").check([(b"authorization", b"Bearer admin")])
    with pytest.raises(InvalidApiKey):
        AdminGate("admin").check([])
    with pytest.raises(InvalidApiKey):
        AdminGate("admin").check([(b"authorization", b"Bearer user")])


# Starting


def start(variables: dict[str, str] | None = None, **sections: Any) -> None:
    """Check what is checked at start."""
    chosen = settings(**sections)
    refuse_to_expose_keys(chosen, make_services(chosen, variables or {}))


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "::1234", "proxy", "127.evil.com"]
)
def test_a_proxy_that_anyone_reaches_does_not_give_its_key_away(host: str) -> None:
    """F1: an upstream key, beyond loopback, no keys of our own."""
    with pytest.raises(BadConfiguration, match="CHAT_PROXY_AUTH_KEYS") as caught:
        start(server={"host": host}, upstream={"api_key": "sk-canary"})

    assert "canary" not in str(caught.value)


def test_a_summary_key_counts_too() -> None:
    with pytest.raises(BadConfiguration):
        start(server={"host": "0.0.0.0"}, summary={"api_key": "sk"})


def test_a_models_own_key_counts_too(tmp_path: Path) -> None:
    file = tmp_path / "registry.json"
    file.write_text(json.dumps([{"name": "gpt", "api_key_env": "GPT_KEY"}]))

    with pytest.raises(BadConfiguration, match="CHAT_PROXY_AUTH_KEYS"):
        start({"GPT_KEY": "sk"}, server={"host": "0.0.0.0"}, registry={"file": file})


def test_a_models_key_that_is_not_set_is_one_line(tmp_path: Path) -> None:
    """E11: a missing key stops the start."""
    file = tmp_path / "registry.json"
    file.write_text(json.dumps([{"name": "gpt", "api_key_env": "GPT_KEY"}]))

    with pytest.raises(BadConfiguration, match=r"model 'gpt' takes its key from GPT_KEY, which is"):
        start(registry={"file": file})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_on_loopback_a_key_may_be_held(host: str) -> None:
    assert is_loopback(host)
    start(server={"host": host}, upstream={"api_key": "sk"})


@pytest.mark.parametrize(
    "sections",
    [
        {"upstream": {"api_key": "sk"}, "auth": {"keys": "k"}},
        {"upstream": {"api_key": "sk"}, "auth": {"allow_anonymous": True}},
        {},
    ],
)
def test_beyond_loopback_it_starts_with_keys_with_leave_or_with_nothing_to_lose(
    sections: dict[str, Any],
) -> None:
    start(server={"host": "0.0.0.0"}, **sections)
