"""Issue 7, point 1: kill -9 of the process that writes a summary for all."""

import asyncio
from pathlib import Path

import httpx
import pytest

from chat_proxy.proxy.summaries.jobs import POLL_SECONDS
from tests.journeys.replicas.fleet import store_in
from tests.journeys.replicas.processes import running_processes
from tests.journeys.summaries.talking import WINDOW, body_of, long_chat
from tests.support.clock import Stopwatch
from tests.support.command import ask
from tests.support.fake_model import fake_model
from tests.support.live import eventually
from tests.support.summary_model import SummaryModel, after, in_turn, once_open
from tests.unit.store.places import store_in_file

pytestmark = pytest.mark.anyio

LEASE_SECONDS = 3.0
# What a busy machine and the new summary itself add.
SLACK_SECONDS = 2.0


@pytest.fixture(params=["redis", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The settings of a store that several processes share."""
    if request.param == "sqlite":
        return {"STORE_URL": store_in_file(tmp_path)["url"]}
    section = store_in(request.getfixturevalue("server"))
    return {"STORE_URL": section["url"], "STORE_SECRET": section["secret"]}


async def chat(url: str) -> httpx.Response:
    """Send a conversation that needs a summary."""
    return await ask(f"{url}/v1/chat/completions", "POST", content=body_of(long_chat()))


def outcome(answer: httpx.Response) -> str:
    """What the proxy says that it did."""
    return answer.headers["x-chat-proxy-compaction"]


async def test_another_process_takes_over_within_the_lease(
    store: dict[str, str], tmp_path: Path
) -> None:
    """FAULTS E3: what the dead one had begun is done once more, by one of the others."""
    gate = asyncio.Event()
    brain = SummaryModel(in_turn(once_open(gate), after(0.2)), window=WINDOW)
    async with fake_model(brain) as model:
        variables = {
            "UPSTREAM_BASE_URL": model.url,
            **store,
            "BUDGET_CONTEXT_WINDOW": str(WINDOW),
            "BUDGET_PREPARE": "1",
            "SUMMARY_WAIT": "trigger",
        }
        async with running_processes(3, tmp_path, LEASE_SECONDS, **variables) as proxies:
            holder, *others = proxies
            dying = asyncio.create_task(chat(holder.url))
            await eventually(lambda: len(brain.summaries) == 1)
            waiting = [asyncio.create_task(chat(proxy.url)) for proxy in others]
            # Longer than a lease: it is renewed for as long as its holder lives.
            await asyncio.sleep(1.5 * LEASE_SECONDS)
            asked_meanwhile = len(brain.summaries)
            holder.kill()
            pids = [proxy.pid for proxy in others]
            watch = Stopwatch(*pids)
            answers = await asyncio.gather(*waiting)
            seconds = watch.own()
            later = await chat(others[0].url)
            with pytest.raises(httpx.HTTPError):
                await dying
        gate.set()

    assert asked_meanwhile == 1
    assert len(brain.summaries) == 2
    assert [it.status_code for it in (*answers, later)] == [200] * 3
    assert {outcome(it) for it in answers} <= {"built", "reused"}
    assert outcome(later) == "reused"
    assert len({it.received.body for it in brain.chats}) == 1
    assert seconds < LEASE_SECONDS + 2 * POLL_SECONDS + SLACK_SECONDS
