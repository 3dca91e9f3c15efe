"""Row E8: three times as many clients as can be served."""

import asyncio
from dataclasses import dataclass, field
from statistics import median

import pytest

from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.chat.body.request import read_request
from chat_proxy.proxy.lifecycle.admission import FREE_SHARE
from tests.support.fake_model import COMPLETION, Line, Received, answer_json
from tests.support.live import chat_body, chat_request
from tools.crowds.run import ProxyProcess, proxy_process

pytestmark = pytest.mark.anyio

SEATS = 8
ROUND_SECONDS = 0.8
ANSWER_SECONDS = 0.05
QUICK_SECONDS = 0.1
QUICK_SHARE = 0.8
BODY = chat_body(user="x" * 4_000)
REQUEST = chat_request(BODY)
LIMITS = RequestLimits(max_depth=64, max_elements=500_000, max_messages=10_000, max_choices=16)
HELD_BYTES = SEATS * read_request(BODY, LIMITS).memory_bytes
MOST_BYTES = HELD_BYTES * (FREE_SHARE + 1) // FREE_SHARE + 1
ROUNDS = 3


async def slowly(received: Received, line: Line) -> None:
    """Answer as a model that takes its time."""
    await asyncio.sleep(ANSWER_SECONDS)
    await answer_json(line, COMPLETION)


@dataclass
class Round:
    """What a number of clients got in a while."""

    served: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)


async def ask_for_a_while(proxy: ProxyProcess, clients: int) -> Round:
    """Let so many clients ask again and again, each a moment after it was refused."""
    loop = asyncio.get_running_loop()
    until = loop.time() + ROUND_SECONDS
    found = Round()

    async def ask() -> None:
        client = await proxy.connect()
        while loop.time() < until:
            began = loop.time()
            await client.send(REQUEST)
            answer = await client.answer()
            if answer.status == 200:
                found.served.append(loop.time() - began)
            else:
                assert answer.error["code"] == "overloaded"
                assert answer.headers["retry-after"] == "1"
                found.refused.append(loop.time() - began)
                await asyncio.sleep(ANSWER_SECONDS)
        client.leave()

    await asyncio.gather(*(ask() for _ in range(clients)))
    return found


def is_quick(over: Round) -> bool:
    """Tell whether refusals took next to nothing, or on a busy machine less than answers do."""
    return median(over.refused) < max(QUICK_SECONDS, QUICK_SHARE * median(over.served))


async def test_e8_with_three_times_the_load_as_much_is_served_and_refusals_are_quick() -> None:
    """The best of three rounds, as this is about the proxy and not about the machine."""
    async with proxy_process(slowly, LIMITS_MAX_INFLIGHT_BYTES=str(MOST_BYTES)) as proxy:
        rounds = [
            (await ask_for_a_while(proxy, SEATS), await ask_for_a_while(proxy, 3 * SEATS))
            for _ in range(ROUNDS)
        ]

    assert all(peak.served for peak, _ in rounds)
    assert all(over.refused for _, over in rounds)
    assert max(len(over.served) / len(peak.served) for peak, over in rounds) >= 0.9
    assert any(is_quick(over) for _, over in rounds)
