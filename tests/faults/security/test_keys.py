"""F1 to F3: who gets in, by which key, and as whom."""

import pytest

from chat_proxy.config.settings import Settings
from chat_proxy.wiring import is_loopback
from tests.faults.security.tenants import tenant_of
from tests.support.command import ask, run_command
from tests.support.fake_model import fake_model, polite
from tests.support.live import chat_body, chat_request, http_client, raw_client, running_proxy

pytestmark = pytest.mark.anyio

SAME_START = "sk-" + "k" * 40


async def test_f1_a_key_that_anyone_could_spend_stops_the_start() -> None:
    """F1: beyond loopback with an upstream key and no keys of its own; one line, exit 2."""
    ended = await run_command("serve", SERVER_HOST="0.0.0.0", UPSTREAM_API_KEY="sk-canary")

    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
    assert "CHAT_PROXY_AUTH_ALLOW_ANONYMOUS" in ended.err
    assert "canary" not in ended.err + ended.out


def test_f1_unless_told_otherwise_only_this_machine_reaches_it() -> None:
    """F1."""
    assert is_loopback(Settings(_env_file=None).server.host)


REFUSED: tuple[list[str], ...] = (
    [],
    ["authorization: Bearer"],
    ["authorization: Bearer TWO"],
    ["authorization: two two"],
    ["authorization: Bearer two,one"],
    ["authorization: Bearer ' OR 1=1 --"],
    ["x-api-key: ' OR '1'='1"],
    ["authorization: Bearer \N{SUPERSCRIPT TWO}"],
    ["authorization: Bearer one", "x-api-key: two"],
    ["x-api-key: two", "x-api-key: wrong"],
    ["cookie: api_key=two; authorization=Bearer two"],
    ["proxy-authorization: Bearer two"],
    ["api-key: two"],
    ["authorization: Bearer " + "x" * 16_000],
)


async def test_f2_nothing_but_one_whole_key_in_its_header_counts() -> None:
    """F2: another case, two keys, a cookie, an injection, unicode digits: all the same 401."""
    bodies = set()
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, auth={"keys": "one,two"}) as proxy,
    ):
        for headers in REFUSED:
            async with raw_client(proxy) as client:
                await client.send(chat_request(chat_body(), *headers))
                answer = await client.answer()
            assert (headers, answer.status) == (headers, 401)
            assert answer.headers["x-chat-proxy-error"] == "invalid_api_key"
            bodies.add(answer.error["message"])
        async with raw_client(proxy) as client:
            await client.send(chat_request(chat_body(), "authorization: Bearer two"))
            assert (await client.answer()).status == 200

    assert bodies == {"No valid API key was sent.", "Several different API keys were sent."}


@pytest.mark.parametrize(("value", "status"), [(b"tw\0o", 400), (b"x" * 2**20, 431)])
async def test_f2_a_key_that_is_no_header_ends_at_the_door(value: bytes, status: int) -> None:
    """F2: a NUL, a megabyte."""
    head, _, body = chat_request().partition(b"\r\n\r\n")
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, auth={"keys": "two"}) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(head + b"\r\nx-api-key: " + value + b"\r\n\r\n" + body)
        assert (await client.answer()).status == status

    assert model.requests == []


async def test_f2_a_key_in_the_address_is_refused_and_not_repeated() -> None:
    """F2: also beside a good one; that no log has it is F13's."""
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, auth={"keys": "two"}) as proxy,
        http_client(proxy, headers={"authorization": "Bearer two"}) as client,
    ):
        for query in ("api_key=two-canary", "x=1&ACCESS_TOKEN=two-canary", "api%5Fkey=two-canary"):
            answer = await client.get(f"/v1/models?{query}")
            assert answer.status_code == 401
            assert "canary" not in answer.text + str(answer.headers)

    assert model.requests == []


async def test_f3_keys_with_the_same_beginning_are_two_tenants() -> None:
    """F3: forty characters alike, and neither sees what is kept for the other."""
    keys = [SAME_START + end for end in "AB"]
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, auth={"keys": keys}) as proxy,
    ):
        offloads = proxy.services.compaction.offloads
        names = [offloads.id_of(tenant_of(key), "text") for key in keys]
        await offloads.keep(tenant_of(keys[0]), {names[0]: "text"})
        statuses = [
            (
                await ask(f"{proxy.url}/v1/offload/{names[0]}", headers={"x-api-key": key})
            ).status_code
            for key in (*keys, SAME_START)
        ]

    assert statuses == [200, 404, 401]
    assert names[0] != names[1]
