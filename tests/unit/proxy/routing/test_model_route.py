"""Who a request is for, by the model's name alone."""

import gc
import json
from collections import OrderedDict
from typing import Any

import pytest

from chat_proxy.proxy.routing.model_route import NAME_CHARS, REMEMBERED_NAMES, ModelRoutes
from chat_proxy.registry.model_card import ModelCard
from chat_proxy.registry.registry import ModelRegistry
from chat_proxy.wiring import make_services
from tests.support.fake_model import fake_model, polite
from tests.support.live import chat_body, http_client, running_proxy, settings


def model_routes(*cards: ModelCard) -> ModelRoutes:
    services = make_services(settings(), {})
    return ModelRoutes(ModelRegistry(cards), services.policies, services.destinations)


def test_a_name_is_found_once_and_remembered() -> None:
    known = model_routes(ModelCard("own", base_url="http://own/v1"))

    assert known.of("own") is known.of("own")
    assert known.of("own").base_url == "http://own/v1"
    assert known.of("other").card == ModelCard("other")


def test_names_without_end_are_not_kept() -> None:
    known = model_routes()

    for number in range(REMEMBERED_NAMES + 10):
        known.of(f"model-{number}")

    assert len(known._known) == REMEMBERED_NAMES


def test_of_an_endless_name_nothing_is_kept_but_what_tells_it_from_others() -> None:
    known = model_routes()
    longest, longer, other = "x" * NAME_CHARS, "x" * (NAME_CHARS + 1), "x" * NAME_CHARS + "\ud800"

    assert known.of(longest).model == longest
    assert known.of(longer) == known.of(longer)
    assert len({known.of(name).fingerprint for name in (longest, longer, other)}) == 3
    assert max(len(name) for name in known._known) == NAME_CHARS
    assert len(known.of(longer).card.name) < 200


def test_models_of_different_names_share_no_fingerprint() -> None:
    known = model_routes()

    assert known.of("a").fingerprint != known.of("b").fingerprint
    assert known.of("\ud800").fingerprint


@pytest.mark.anyio
async def test_who_sends_endless_names_does_not_fill_the_memory() -> None:
    """All that is remembered by a model's name would be as long as the client likes."""
    names = [f"{number}" + "x" * 1_000_000 for number in range(3)]
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        http_client(proxy) as client,
    ):
        for name in names:
            await client.post("/v1/chat/completions", content=chat_body(model=name))
        sent = [json.loads(it.body)["model"] for it in model.requests if it.method == "POST"]
        held = [it for it in gc.get_objects() if type(it) in (dict, OrderedDict) and holds_long(it)]

    assert sent == names
    assert held == []


def holds_long(held: dict[Any, Any]) -> bool:
    """Tell whether a key is, or has in it, a text of a megabyte."""
    parts = (part for key in held for part in (key if type(key) is tuple else (key,)))
    return any(type(part) in (str, bytes) and len(part) >= 1_000_000 for part in parts)
