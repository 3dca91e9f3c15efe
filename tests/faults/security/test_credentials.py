"""F23: whatever header carries a key, it makes the tenant and goes wherever the request goes."""

import pytest

from tests.faults.security.test_offloaded_texts import cut_result
from tests.journeys.summaries.talking import WINDOW, label, long_chat, talking
from tests.support.fake_model import Received, fake_model, polite
from tests.support.live import (
    Proxy,
    chat_body,
    chat_request,
    http_client,
    raw_client,
    running_proxy,
)
from tests.support.summary_model import SummaryModel

pytestmark = pytest.mark.anyio

CARRIERS = (
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cf-aig-authorization",
    "x-litellm-api-key",
    "helicone-auth",
    "x-auth-token",
    "x-access-token",
    "x-portkey-api-key",
    "x-portkey-virtual-key",
    "x-amz-security-token",
    "x-functions-key",
    "x-some-vendor-api-key",
    "x-some-vendor-authorization",
)
GATEWAY = {"authorization": "Bearer sk-shared", "helicone-auth": "Bearer alice"}


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_f23_a_key_in_any_header_that_is_sent_on_makes_a_tenant(carrier: str) -> None:
    """F23: another key gets nothing of what was kept, and neither does one who sends none."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        name = await cut_result(proxy, model, "read", headers={carrier: "sk-alice"})
        sent_on = model.requests[-1].header(carrier)
        statuses = [
            await status_of(proxy, name, headers)
            for headers in ({carrier: "sk-alice"}, {carrier: "sk-bob"}, {})
        ]

    assert sent_on == "sk-alice"
    assert statuses == [200, 404, 404]


async def test_f23_a_second_key_beside_a_shared_one_makes_another_tenant() -> None:
    """F23: a team's provider key with each one's own gateway key; the order does not matter."""
    async with fake_model(polite) as model, running_proxy(model.url) as proxy:
        name = await cut_result(proxy, model, "read", headers=GATEWAY)
        statuses = [
            await status_of(proxy, name, headers)
            for headers in (
                dict(reversed(GATEWAY.items())),
                {**GATEWAY, "helicone-auth": "Bearer bob"},
                {"authorization": GATEWAY["authorization"]},
                {"helicone-auth": "Bearer alice"},
                {"authorization": "Bearer alice", "helicone-auth": "Bearer sk-shared"},
            )
        ]

    assert statuses == [200, 404, 404, 404, 404]


async def test_f23_discovery_and_summaries_carry_every_key_that_the_request_carries() -> None:
    """F23: a gateway that asks for two keys answers the proxy's own questions too."""
    brain = SummaryModel(window=WINDOW)
    headers = [f"{name}: {value}" for name, value in GATEWAY.items()]
    async with talking(brain) as talk:
        assert label(await talk.ask(long_chat(), *headers)) == "built"

    for received in talk.model.requests:
        assert keys_in(received) == GATEWAY, received.target
    assert {"GET", "POST"} == {received.method for received in talk.model.requests}
    assert brain.summaries


@pytest.mark.parametrize("upstream", [{}, {"api_key": "sk-ours"}])
async def test_f23_with_keys_of_our_own_none_of_the_client_s_is_sent_on(
    upstream: dict[str, str],
) -> None:
    """F23: the upstream must not see keys that did not decide who the tenant is."""
    headers = [f"{carrier}: sk-canary" for carrier in CARRIERS[2:]]
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, auth={"keys": "two"}, upstream=upstream) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request(chat_body(), "authorization: Bearer two", *headers))
        assert (await client.answer()).status == 200

    assert "canary" not in str([received.headers for received in model.requests])


@pytest.mark.parametrize("carrier", ["x-goog-api-key", "helicone-auth"])
async def test_f23_one_header_with_two_keys_is_refused(carrier: str) -> None:
    """F23: which of them the upstream would believe is unknown."""
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request(chat_body(), f"{carrier}: one", f"{carrier}: two"))
        assert (await client.answer()).status == 401

    assert model.requests == []


async def status_of(proxy: Proxy, name: str, headers: dict[str, str]) -> int:
    """Return how a request for an offloaded text is answered."""
    async with http_client(proxy, headers=headers) as client:
        return (await client.get(f"/v1/offload/{name}")).status_code


def keys_in(received: Received) -> dict[str, str]:
    return {name: value for name, value in received.headers if name in CARRIERS}
