"""Who tells how large a model's window is, in order; and what one model overrides for itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.counting.conftest import Said
from tests.journeys.counting.pictures import image
from tests.support.fake_model import COMPLETION, Line, Received, answer_json, fake_model
from tests.support.live import Proxy, chat_body, chat_request, raw_client, running_proxy

pytestmark = pytest.mark.anyio

LISTING = {
    "data": [
        {"id": "served", "max_model_len": 5000},
        {"id": "gpt-4o", "max_model_len": 6000},
        {"id": "adapter", "parent": "served", "root": "/loras/x"},
        {"id": "adapter-of-adapter", "parent": "adapter"},
        {"id": "renamed", "root": "served"},
    ]
}
REGISTRY = [
    {"name": "known", "context_window": 7000, "aliases": ["nick"]},
    {"name": "served", "context_window": 7001},
    {"name": "tight", "context_window": 7002, "overrides": {"budget_context_window": 900}},
    {"name": "old", "overrides": {"tokens_encoding": "cl100k_base"}},
    {"name": "seeing", "overrides": {"media_image_token_estimate": 321}},
]


async def lists(received: Received, line: Line) -> None:
    await answer_json(line, LISTING if received.method == "GET" else COMPLETION)


async def lists_nothing(received: Received, line: Line) -> None:
    await answer_json(line, {"data": []} if received.method == "GET" else COMPLETION)


@pytest.fixture
def registry(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "registry.json"
    file.write_text(json.dumps(REGISTRY))
    return {"file": str(file)}


async def window_of(model: str, proxy: Proxy, said: Said) -> tuple[int, str] | None:
    """Send a chat; return what its log line says of the window."""
    async with raw_client(proxy) as client:
        await client.send(chat_request(chat_body(model=model)))
        assert (await client.answer()).status == 200
    line = said("request")[-1]
    assert ("window" in line) == ("window_source" in line)
    return (line["window"], line["window_source"]) if "window" in line else None


async def test_the_best_source_tells(registry: dict[str, str], said: Said) -> None:
    async with fake_model(lists) as model, running_proxy(model.url, registry=registry) as proxy:
        found = {
            name: await window_of(name, proxy, said)
            for name in ("tight", "known", "nick", "served", "gpt-4o", "gpt-4.1", "nobody", "")
        }

    assert found == {
        "tight": (900, "setting"),
        "known": (7000, "registry"),
        "nick": (7000, "registry"),
        "served": (7001, "registry"),
        "gpt-4o": (6000, "discovery"),
        "gpt-4.1": (1_047_576, "table"),
        "nobody": None,
        "": None,
    }


async def test_adapters_have_their_parents_window(said: Said) -> None:
    async with fake_model(lists) as model, running_proxy(model.url) as proxy:
        found = [
            await window_of(name, proxy, said)
            for name in ("served", "adapter", "adapter-of-adapter", "renamed")
        ]

    assert found == [(5000, "discovery")] * 4


async def test_the_setting_overrides_all(registry: dict[str, str], said: Said) -> None:
    budget = {"context_window": 1234}
    async with (
        fake_model(lists) as model,
        running_proxy(model.url, registry=registry, budget=budget) as proxy,
    ):
        found = {
            name: await window_of(name, proxy, said)
            for name in ("known", "gpt-4o", "nobody", "tight")
        }

    assert found.pop("tight") == (900, "setting")
    assert set(found.values()) == {(1234, "setting")}


async def test_without_a_listing_the_table_tells_or_nobody(said: Said) -> None:
    async with fake_model(lists_nothing) as model, running_proxy(model.url) as proxy:
        assert await window_of("gpt-4o", proxy, said) == (128_000, "table")
        assert await window_of("served", proxy, said) is None


async def explained(proxy: Proxy, **fields: Any) -> dict[str, Any]:
    body = chat_body(**fields)
    request = chat_request(body).replace(b"/chat/completions", b"/chat/explain", 1)
    async with raw_client(proxy) as client:
        await client.send(request)
        answer = await client.answer()
    assert answer.status == 200
    return dict(json.loads(answer.body))


async def test_a_model_has_its_own_encoding_and_image_tokens(registry: dict[str, str]) -> None:
    messages = [{"role": "user", "content": [image("https://example.org/x.png")]}]
    async with fake_model(lists) as model, running_proxy(model.url, registry=registry) as proxy:
        plain = await explained(proxy, model="nobody", messages=messages)
        seeing = await explained(proxy, model="seeing", messages=messages)
        old = await explained(proxy, model="old", messages=messages)

    assert plain["tokens"]["by_kind"]["images"] == old["tokens"]["by_kind"]["images"] == 1600
    assert seeing["tokens"]["by_kind"]["images"] == 321
    assert plain["tokens"]["encoding"] == seeing["tokens"]["encoding"] == "o200k_base"
    assert old["tokens"]["encoding"] == "cl100k_base"
    assert old["tokens"]["is_guess"] is False
