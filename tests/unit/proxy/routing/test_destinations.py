"""Where requests go and with which key: from configuration only."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_model import FakeModel, fake_model, polite
from tests.support.live import chat_body, chat_request, raw_client, running_proxy

pytestmark = pytest.mark.anyio

COMMON_KEY = "sk-common"
MODEL_KEY = "sk-model"


def registry(tmp_path: Path, *entries: dict[str, Any]) -> dict[str, Any]:
    path = tmp_path / "registry.json"
    path.write_text(json.dumps(entries))
    return {"file": path}


def keys_seen(model: FakeModel) -> set[str | None]:
    return {request.header("authorization") for request in model.requests}


class World:
    """Two models, the second with a base URL of its own."""

    def __init__(self, tmp_path: Path) -> None:
        self._tmp_path = tmp_path

    async def ask(self, entry: dict[str, Any], sent: str | None, **sections: Any) -> None:
        async with fake_model(polite) as self.common, fake_model(polite) as self.own:
            entry = {"name": "special", "base_url": self.own.url, **entry}
            async with (
                running_proxy(
                    self.common.url,
                    variables={"SPECIAL_KEY": MODEL_KEY},
                    registry=registry(self._tmp_path, entry),
                    upstream={"api_key": COMMON_KEY},
                    **sections,
                ) as proxy,
                raw_client(proxy) as client,
            ):
                headers = [f"authorization: Bearer {sent}"] if sent else []
                for name in ("special", "ordinary"):
                    for path in (b"/v1/chat/completions", b"/v1/embeddings"):
                        request = chat_request(chat_body(model=name), *headers)
                        await client.send(request.replace(b"/v1/chat/completions", path))
                        assert (await client.answer()).status == 200


async def test_each_model_gets_its_own_address_and_key(tmp_path: Path) -> None:
    world = World(tmp_path)

    await world.ask({"api_key_env": "SPECIAL_KEY"}, "sk-client")

    assert keys_seen(world.own) == {f"Bearer {MODEL_KEY}"}
    assert keys_seen(world.common) == {f"Bearer {COMMON_KEY}"}


@pytest.mark.parametrize("sent", ["sk-client", None])
async def test_the_common_key_never_goes_elsewhere(tmp_path: Path, sent: str | None) -> None:
    world = World(tmp_path)

    await world.ask({}, sent)

    assert keys_seen(world.own) == {f"Bearer {sent}" if sent else None}
    assert keys_seen(world.common) == {f"Bearer {COMMON_KEY}"}


async def test_a_key_for_the_proxy_goes_nowhere(tmp_path: Path) -> None:
    world = World(tmp_path)

    await world.ask({}, "sk-ours", auth={"keys": ["sk-ours"]})

    assert keys_seen(world.own) == {None}
    assert keys_seen(world.common) == {f"Bearer {COMMON_KEY}"}


async def test_no_field_of_a_request_chooses_its_destination(tmp_path: Path) -> None:
    """F9."""
    async with (
        fake_model(polite) as evil,
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        body = chat_body(base_url=evil.url, api_base=evil.url)
        await client.send(chat_request(body, f"x-openai-base-url: {evil.url}"))
        answer = await client.answer()

    assert answer.status == 200
    assert evil.connections == 0
