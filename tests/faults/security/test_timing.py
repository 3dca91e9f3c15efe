"""F25: how long a request takes does not tell whether anybody else sent the same text."""

import json
import random
from time import process_time
from typing import Any

import pytest

from tests.faults.security.ranks import chance_of_one_source
from tests.faults.security.tenants import ALICE, BOB
from tests.support.fake_model import fake_model, polite
from tests.support.live import RawClient, chat_request, raw_client, running_proxy
from tests.unit.chat.shapes import says, user

pytestmark = pytest.mark.anyio

SAMPLES = 25
WORDS = 8_000
SHAPES = {"one text": 1, "many messages": 80}


@pytest.mark.parametrize("shape", SHAPES)
async def test_f25_a_text_of_another_tenant_takes_as_long_as_one_that_nobody_sent(
    shape: str,
) -> None:
    """F25: token counts and beginnings of bodies; told apart by no rank test; best of three."""
    dice, chances = random.Random(25), list[float]()
    window = {"context_window": 1_000_000}
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, budget=window) as proxy,
        raw_client(proxy) as client,
    ):
        await seconds_of(client, talk(dice, shape), ALICE)
        while len(chances) < 3 and max(chances, default=0) <= 0.01:
            chances.append(chance_of_one_source(*await timed(client, dice, shape)))

    assert max(chances) > 0.01, chances


async def test_f25_one_s_own_text_is_still_quicker_the_second_time() -> None:
    """F25: the caches are kept, for each tenant; this also shows that the test above can fail."""
    dice = random.Random(26)
    window = {"context_window": 1_000_000}
    async with (
        fake_model(polite) as model,
        running_proxy(model.url, budget=window) as proxy,
        raw_client(proxy) as client,
    ):
        talks = [talk(dice, "one text") for _ in range(SAMPLES)]
        first = [await seconds_of(client, each, ALICE) for each in talks]
        second = [await seconds_of(client, each, ALICE) for each in talks]

    assert chance_of_one_source(first, second) < 1e-6
    assert sorted(second)[SAMPLES // 2] < sorted(first)[SAMPLES // 2] / 2


async def timed(
    client: RawClient, dice: random.Random, shape: str
) -> tuple[list[float], list[float]]:
    """Return how long Bob waits for what Alice sent before him, and for what nobody sent."""
    seen, unseen = ([talk(dice, shape) for _ in range(SAMPLES)] for _ in range(2))
    for each in seen:
        await seconds_of(client, each, ALICE)
    probes = [(each, 0) for each in seen] + [(each, 1) for each in unseen]
    dice.shuffle(probes)
    seconds: tuple[list[float], list[float]] = ([], [])
    for each, kind in probes:
        seconds[kind].append(await seconds_of(client, each, BOB))
    return seconds


def talk(dice: random.Random, shape: str) -> bytes:
    """Return a request that nobody sent yet."""
    count = SHAPES[shape]
    texts = [
        " ".join(f"{dice.getrandbits(32):x}" for _ in range(WORDS // count)) for _ in range(count)
    ]
    messages: list[Any] = [(says if n % 2 else user)(text) for n, text in enumerate(texts)]
    return json.dumps({"model": "fake", "messages": [*messages, user("?")]}).encode()


async def seconds_of(client: RawClient, body: bytes, key: str) -> float:
    """Return how long a tenant waits for its answer."""
    request = chat_request(body, f"authorization: Bearer {key}")
    start = process_time()
    await client.send(request)
    answer = await client.answer()
    seconds = process_time() - start
    assert answer.status == 200
    return seconds
