"""Issue 7, point 3: proxies that share one SQLite file; its troubles are in tests/faults/store."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.proxy.summaries.jobs import POLL_SECONDS
from tests.journeys.replicas.fleet import fleet_of
from tests.journeys.replicas.processes import running_processes
from tests.journeys.replicas.telling import numbered
from tests.journeys.summaries.talking import SYSTEM, WINDOW, body_of, label, long_chat, post, turns
from tests.support.command import ask
from tests.support.fake_model import fake_model
from tests.support.live import eventually
from tests.support.summary_model import SummaryModel, after, once_open
from tests.unit.chat.shapes import user
from tests.unit.store.places import store_in_file

pytestmark = pytest.mark.anyio

PROXIES = 3
PROCESSES = 4
CONVERSATIONS = 5
LEASE_SECONDS = 10.0


async def test_proxies_on_one_file_that_are_asked_at_once_write_one_summary(
    tmp_path: Path,
) -> None:
    """BUGS 43, 44: those who come second wait for the one who holds the lease."""
    brain = SummaryModel(numbered(0.3), window=WINDOW)
    async with fleet_of(PROXIES, brain, store_in_file(tmp_path)) as fleet:
        body = body_of(long_chat())
        answers = await asyncio.gather(*(post(talk.line, body) for talk in fleet.talks))

    assert [it.status for it in answers] == [200] * PROXIES
    assert {label(it) for it in answers} <= {"built", "reused"}
    assert len(brain.summaries) == 1
    assert len({chat.received.body for chat in brain.chats}) == 1


async def test_proxies_on_one_file_that_prepare_at_once_write_one_summary(tmp_path: Path) -> None:
    """BUGS 43: the same behind the scenes, and nobody waits."""
    brain = SummaryModel(after(0.3), window=WINDOW)
    store = store_in_file(tmp_path)
    async with fleet_of(PROXIES, brain, store, budget={"prepare": 0.65}) as fleet:
        body = body_of(long_chat(11))
        early = await asyncio.gather(*(post(talk.line, body) for talk in fleet.talks))
        jobs = [talk.proxy.services.compaction.summaries.jobs for talk in fleet.talks]
        await eventually(lambda: brain.summaries and not any(it._running for it in jobs))
        late = await fleet.ask_all([*long_chat(11), *turns(3, first=20)[1:], user("And then?")])

    assert {label(it) for it in early} == {"none"}
    assert {label(it) for it in late} == {"reused"}
    assert len(brain.summaries) == 1


async def test_a_conversation_that_grows_while_its_summary_is_written_needs_no_other(
    tmp_path: Path,
) -> None:
    """Issue 21: the next request comes to another worker, which waits for what has begun."""
    gate = asyncio.Event()
    brain = SummaryModel(once_open(gate), window=WINDOW)
    store = store_in_file(tmp_path)
    sections: dict[str, Any] = {"budget": {"prepare": 0.65}, "summary": {"wait": "overflow"}}
    async with fleet_of(PROXIES, brain, store, **sections) as fleet:
        jobs = [talk.proxy.services.compaction.summaries.jobs for talk in fleet.talks]
        messages = long_chat(11)
        for number, its_jobs in enumerate(jobs):
            await fleet.ask(messages)
            await eventually(lambda its=its_jobs: its._running)
            messages = [*messages, *turns(1, 250, first=30 + number)[1:], user("And then?")]
        await asyncio.sleep(POLL_SECONDS + 0.3)
        begun = len(brain.summaries)
        gate.set()
        await eventually(lambda: not any(it._running for it in jobs))
        late = await fleet.ask_all([*messages, *turns(3, first=40)[1:], user("And now?")])

    assert begun == 1
    assert len(brain.summaries) == 1
    assert {label(it) for it in late} == {"reused"}


async def test_processes_on_one_file_write_each_summary_once(tmp_path: Path) -> None:
    """Issue 21: what several workers need at the same moment is written by one of them."""
    brain = SummaryModel(after(0.5), window=WINDOW)
    chats = [[SYSTEM, *turns(14, first=20 * n), user("And now?")] for n in range(CONVERSATIONS)]
    async with fake_model(brain) as model:
        variables = {
            "UPSTREAM_BASE_URL": model.url,
            "STORE_URL": store_in_file(tmp_path)["url"],
            "BUDGET_CONTEXT_WINDOW": str(WINDOW),
            "BUDGET_PREPARE": "1",
            "SUMMARY_WAIT": "trigger",
        }
        async with running_processes(PROCESSES, tmp_path, LEASE_SECONDS, **variables) as proxies:
            answers = await asyncio.gather(
                *(
                    ask(f"{proxy.url}/v1/chat/completions", "POST", content=body_of(chat))
                    for chat in chats
                    for proxy in proxies
                )
            )

    labels = [it.headers["x-chat-proxy-compaction"] for it in answers]
    assert {it.status_code for it in answers} == {200}
    assert set(labels) <= {"built", "reused"}
    assert len(brain.summaries) == CONVERSATIONS
    assert len({chat.received.body for chat in brain.chats}) == CONVERSATIONS
