"""F26: the listing that one tenant's key gets does not decide about another's windows."""

import json
from typing import Any

import pytest

from tests.support.fake_model import Line, Received, answer_json, fake_model, polite
from tests.support.live import Proxy, http_client, running_proxy

pytestmark = pytest.mark.anyio


class Gateway:
    """A server that lists models for each key as told; a key without a list gets a 401."""

    def __init__(self, **windows: dict[str, int]) -> None:
        self.windows = windows
        self.asked: list[str] = []

    async def __call__(self, received: Received, line: Line) -> None:
        if not received.target.startswith("/v1/models"):
            await polite(received, line)
            return
        key = (received.header("authorization") or "").removeprefix("Bearer ")
        self.asked.append(key)
        if key not in self.windows:
            await answer_json(line, {"error": {"message": "no"}}, 401)
            return
        models = [{"id": id_, "max_model_len": size} for id_, size in self.windows[key].items()]
        await answer_json(line, {"object": "list", "data": models})


async def window_of(proxy: Proxy, key: str, model: str = "fake") -> Any:
    """Return the window in which a tenant's request is measured."""
    async with http_client(proxy, headers={"authorization": f"Bearer {key}"}) as client:
        document = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
        answer = await client.post("/v1/chat/explain", content=json.dumps(document))
        sent = await client.post("/v1/chat/completions", content=json.dumps(document))
    assert (answer.status_code, sent.status_code) == (200, 200)
    return answer.json()["window"]["tokens"] if answer.json()["window"] else None


async def test_f26_each_key_has_the_window_that_it_is_told() -> None:
    """F26: a gateway with small and large plans; whoever asks first decides for itself only."""
    gateway = Gateway(alice={"fake": 4_000}, bob={"fake": 32_000})
    async with fake_model(gateway) as model, running_proxy(model.url) as proxy:
        found = [await window_of(proxy, key) for key in ("alice", "bob", "alice", "bob")]

    assert found == [4_000, 32_000, 4_000, 32_000]
    assert gateway.asked == ["alice", "bob"]


async def test_f26_a_key_that_is_refused_leaves_nobody_else_without_a_window() -> None:
    """F26: it comes first, and the next one asks for itself at once."""
    gateway = Gateway(alice={"fake": 4_000})
    async with fake_model(gateway) as model, running_proxy(model.url) as proxy:
        found = [await window_of(proxy, key) for key in ("mallory", "alice")]

    assert found == [None, 4_000]


async def test_f26_an_empty_listing_replaces_no_window() -> None:
    """F26: neither another key's nor, after a while, the same key's."""
    gateway = Gateway(alice={"fake": 4_000}, mallory={})
    refresh = {"discovery_seconds": 0.001}
    async with fake_model(gateway) as model, running_proxy(model.url, upstream=refresh) as proxy:
        found = [await window_of(proxy, key) for key in ("alice", "mallory", "alice")]
        gateway.windows["alice"] = {"other": 9_000}
        found += [await window_of(proxy, "alice") for _ in range(3)]
        other = await window_of(proxy, "alice", "other")

    assert found == [4_000] * 6
    assert other == 9_000


async def test_f26_one_key_for_all_asks_once() -> None:
    """F26: where the proxy holds the key, all tenants share one listing."""
    gateway = Gateway(ours={"fake": 4_000})
    upstream = {"api_key": "ours"}
    async with fake_model(gateway) as model, running_proxy(model.url, upstream=upstream) as proxy:
        found = [await window_of(proxy, key) for key in ("alice", "bob")]

    assert found == [4_000, 4_000]
    assert gateway.asked == ["ours"]
