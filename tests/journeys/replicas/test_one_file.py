"""Issue 7, point 3: proxies that share one SQLite file; its troubles are in tests/faults/store."""

import asyncio
from pathlib import Path

import pytest

from chat_proxy.proxy.session.checkpoints import ASK_AGAIN_SECONDS
from tests.journeys.replicas.fleet import fleet_of
from tests.journeys.replicas.telling import numbered
from tests.journeys.summaries.talking import WINDOW, body_of, label, long_chat, post
from tests.support.summary_model import SummaryModel
from tests.unit.store.places import store_in_file

pytestmark = pytest.mark.anyio


async def test_proxies_on_one_file_that_are_asked_at_once_agree_in_the_end(tmp_path: Path) -> None:
    """BUGS 44: a file gives no leases, so both may write; what was written last is everybody's."""
    brain = SummaryModel(numbered(0.2), window=WINDOW)
    async with fleet_of(2, brain, store_in_file(tmp_path)) as fleet:
        body = body_of(long_chat())
        answers = await asyncio.gather(*(post(talk.line, body) for talk in fleet.talks))
        await asyncio.sleep(ASK_AGAIN_SECONDS + 0.1)
        agreed = await fleet.ask_all(long_chat())

    assert [it.status for it in answers] == [200, 200]
    assert len(brain.summaries) <= 2
    assert {label(it) for it in agreed} == {"reused"}
    assert len({it.upstream for it in agreed}) == 1
