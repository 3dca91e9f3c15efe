"""D7: clients that leave while the store is asked for them."""

import asyncio
import re
from pathlib import Path

import pytest

from chat_proxy.store.sqlite.store import WAL_BYTES, SqliteStore
from tests.journeys.summaries.talking import WINDOW, body_of, label, long_chat, talking
from tests.support.conversations import get
from tests.support.live import chat_request, raw_client
from tests.support.summary_model import SummaryModel
from tests.unit.store.places import place_in, store_in_file

pytestmark = pytest.mark.anyio

DAY = 86_400.0
MIB = 1024 * 1024
ABORTS = 100


async def test_d7_clients_that_leave_disturb_neither_the_file_nor_the_others(
    tmp_path: Path,
) -> None:
    brain = SummaryModel(window=WINDOW)
    async with talking(brain, store=store_in_file(tmp_path)) as talk:
        built = await talk.ask(long_chat())
        for number in range(ABORTS):
            async with raw_client(talk.proxy) as client:
                await client.send(chat_request(body_of(long_chat(14 + number % 3))))
                await asyncio.sleep(0.001 * (number % 5))
                client.leave()
        again = await talk.ask(long_chat())
        figures = (await get(talk.line, "/metrics")).body.decode()
        log = place_in(tmp_path).with_name("store.db-wal")
        log_bytes = log.stat().st_size

    told = re.search(r"^chat_proxy_store_wal_bytes (\S+)$", figures, re.MULTILINE)
    assert (label(built), label(again)) == ("built", "reused")
    assert "chat_proxy_store_degraded 0.0" in figures
    assert "chat_proxy_client_abort_total{" in figures
    assert told
    assert 0 < float(told[1]) <= WAL_BYTES
    assert log_bytes <= WAL_BYTES


async def test_d7_the_log_stays_bounded_while_readers_are_cancelled(tmp_path: Path) -> None:
    """A reader who held its snapshot would let the log grow with every write."""
    store = SqliteStore(tmp_path / "store.db", wait_seconds=30)
    await store.open()
    most = 0
    for number in range(80):
        readers = [asyncio.create_task(store.get_many("kind", [b"%d" % number])) for _ in range(10)]
        assert await store.put("kind", b"%d" % (number % 5), bytes(MIB), DAY)
        for reader in readers:
            reader.cancel()
        most = max(most, store.log_bytes)

    assert 0 < most <= WAL_BYTES
    assert len(await store.get_many("kind", [b"4"])) == 1
    await store.close()
    assert store.log_bytes == 0
