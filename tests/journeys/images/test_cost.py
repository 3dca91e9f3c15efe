"""What scaling costs: little CPU, no stall of the event loop, nothing the second time."""

import asyncio
import time
from math import inf
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.imaging.scale import scaled_image
from chat_proxy.imaging.scaled_images import ScaledImages
from tests.journeys.images.photos import VisionServer, asks, looking, photo, tell
from tests.support.clock import own_time
from tests.unit.chat.shapes import system

pytest.importorskip("PIL")
pytestmark = pytest.mark.anyio

MOST_CPU_SECONDS = 0.150
LONGEST_STALL_SECONDS = 0.020
ROUNDS = 7
"""Other processes share the machine: the best round counts."""


def base64_of(url: str) -> str:
    return url.partition(",")[2]


async def stall_during(work: asyncio.Future[Any]) -> float:
    """Return the longest time for which the loop did nothing else."""
    longest, before = 0.0, own_time()
    while not work.done():
        await asyncio.sleep(0.001)
        now = own_time()
        longest, before = max(longest, now - before), now
    return longest


@pytest.mark.parametrize("side", [600, 1_100, 2_200, 3_500])
def test_a_photo_of_twelve_megapixels_takes_little_cpu(side: int) -> None:
    given = base64_of(photo())
    costs: list[float] = []
    while len(costs) < ROUNDS and min(costs, default=inf) > MOST_CPU_SECONDS:
        before = time.thread_time()
        assert scaled_image(given, side) is not None
        costs.append(time.thread_time() - before)

    assert min(costs) <= MOST_CPU_SECONDS


async def test_the_event_loop_goes_on_meanwhile() -> None:
    stalls: list[float] = []
    while len(stalls) < ROUNDS and min(stalls, default=inf) > LONGEST_STALL_SECONDS:
        images = ScaledImages()
        work = asyncio.ensure_future(images.scale("ann", [(base64_of(photo()), 1_100)]))
        stalls.append(await stall_during(work))
        assert None not in work.result().values()
        images.close()

    assert min(stalls) <= LONGEST_STALL_SECONDS


async def test_the_second_request_scales_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = VisionServer(4_096)
    async with looking(server, tmp_path) as met:
        await tell(met, [system(), asks("Look", photo())])
        monkeypatch.setattr("chat_proxy.imaging.scaled_images.scaled_image", None)
        answer = await tell(met, [system(), asks("Look", photo())])

    assert answer.status == 200
    assert server.prompts[0] == server.prompts[1]
