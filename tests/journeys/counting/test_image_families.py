"""What images cost is known from the name, from the listing, or from the upstream's own reports."""

import json
from typing import Any

import pytest

from chat_proxy.tokens.images.formulas import FORMULAS
from chat_proxy.tokens.images.size import image_size
from tests.journeys.counting.pictures import image, png, text
from tests.support.fake_model import COMPLETION, Line, Received, answer_json, fake_model
from tests.support.live import Proxy, chat_body, chat_request, raw_client, running_proxy

pytestmark = pytest.mark.anyio

SIZES = [(224, 224), (1024, 768), (1500, 1500), (640, 480), (800, 600), (1920, 1080), (512, 512)]
UNTOUCHED: dict[str, Any] = {
    "vision": {"truncate_history": False},
    "budget": {"context_window": 1_000_000},
}


class Sees:
    """A model that reports what its family's images cost."""

    def __init__(self, family: str, root: str | None = None) -> None:
        self._formula = FORMULAS[family]
        self._model = {"id": "fake", "owned_by": "vllm", "max_model_len": 50_000, "root": root}
        self.reported: list[int] = []

    async def __call__(self, received: Received, line: Line) -> None:
        if received.method == "GET":
            await answer_json(line, {"data": [self._model]})
            return
        tokens = 8
        for message in json.loads(received.body)["messages"]:
            for part in message["content"]:
                size = image_size(part["image_url"]["url"]) if "image_url" in part else None
                tokens += self._formula(size, "") if size else 6
        self.reported.append(tokens)
        usage = {"prompt_tokens": tokens, "completion_tokens": 1}
        await answer_json(line, {**COMPLETION, "usage": usage})


async def errors(proxy: Proxy, upstream: Sees, number: int) -> list[float]:
    """Ask about so many images; return how far off each estimate was."""
    found = []
    async with raw_client(proxy) as client:
        for at in range(number):
            parts = [text("What is on this image, please?"), image(png(*SIZES[at % len(SIZES)]))]
            messages = [{"role": "user", "content": parts}]
            await client.send(chat_request(chat_body(messages=messages)))
            answer = await client.answer()
            estimate = int(answer.headers["x-chat-proxy-tokens-before"])
            found.append(abs(estimate / upstream.reported[-1] - 1))
    return found


@pytest.mark.parametrize("family", ["qwen2-vl", "internvl", "gemma-3", "llama-4"])
async def test_a_family_that_nothing_tells_is_learned_from_usage(family: str) -> None:
    upstream = Sees(family)
    async with fake_model(upstream) as model, running_proxy(model.url, **UNTOUCHED) as proxy:
        found = await errors(proxy, upstream, 16)

    assert max(found[5:]) <= 0.1


async def test_the_root_of_a_served_name_tells_the_family() -> None:
    upstream = Sees("qwen2-vl", root="/models/Qwen2-VL-7B-Instruct")
    async with fake_model(upstream) as model, running_proxy(model.url, **UNTOUCHED) as proxy:
        found = await errors(proxy, upstream, 3)

    assert max(found) <= 0.2
    assert found[1] <= 0.05
