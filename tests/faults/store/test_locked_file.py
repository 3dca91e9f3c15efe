"""D1, D2: a SQLite file that another process holds, and reads that never become writes."""

import asyncio
from pathlib import Path

import pytest

from chat_proxy.store.sqlite.store import SqliteStore
from tests.journeys.replicas.fleet import fleet_of
from tests.journeys.summaries.talking import WINDOW, label, long_chat, other_chat
from tests.support.clock import own_time
from tests.support.conversations import get
from tests.support.summary_model import SummaryModel
from tests.unit.store.places import locked, place_in, store_in_file

pytestmark = pytest.mark.anyio

DAY = 86_400.0
LOCK_BOUND_SECONDS = 0.25
WRITES = ("INSERT", "DELETE", "UPDATE")


async def test_d1_a_locked_file_is_read_and_nobody_waits_long(tmp_path: Path) -> None:
    """Each write costs its bound at most, and what was there is reused."""
    brain = SummaryModel(window=WINDOW)
    async with fleet_of(2, brain, store_in_file(tmp_path)) as fleet:
        writer, reader = fleet.talks
        await writer.ask(long_chat())
        with locked(place_in(tmp_path)):
            start = own_time()
            reused = await reader.ask(long_chat())
            built = await writer.ask(other_chat())
            again = await writer.ask(other_chat())
            seconds = own_time() - start
        errors = fleet.store_errors("busy") + fleet.store_errors("slow")

    assert [label(it) for it in (reused, built, again)] == ["reused", "built", "reused"]
    assert again.upstream == built.upstream
    assert seconds < 4 * LOCK_BOUND_SECONDS + 2
    assert errors > 0


async def test_d1_a_file_is_shared_again_when_its_lock_is_gone(tmp_path: Path) -> None:
    brain = SummaryModel(window=WINDOW)
    async with fleet_of(2, brain, store_in_file(tmp_path)) as fleet:
        with locked(place_in(tmp_path)):
            await fleet.ask(long_chat())
        await asyncio.sleep(2 * LOCK_BOUND_SECONDS)
        one, other = await fleet.ask_all(other_chat())
        ready = [await get(talk.line, "/readyz") for talk in fleet.talks]

    assert (label(one), label(other)) == ("built", "reused")
    assert {it.body for it in ready} == {b'{"status":"ready"}'}


async def test_d2_every_write_begins_as_one_and_no_read_becomes_one(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    await store.put("kind", b"a", b"1", DAY)
    await store.get_many("kind", [b"a"])
    said: dict[str, list[str]] = {"get": [], "put": []}
    for name, connection in store._connections.items():
        connection.set_trace_callback(said[name].append)

    for number in range(120):
        await store.put("kind", b"%d" % number, b"1", DAY)
        await store.get_many("kind", [b"%d" % number])
    await store.close()

    words = [statement.split()[0] for statement in said["put"]]
    assert {statement.split()[0] for statement in said["get"]} == {"SELECT"}
    assert {words.count("BEGIN"), words.count("COMMIT")} == {121}
    is_writing = False
    for statement in said["put"]:
        if statement.startswith(("BEGIN", "COMMIT")):
            is_writing = statement == "BEGIN IMMEDIATE"
        assert is_writing or not statement.startswith(WRITES)


async def test_d2_two_who_read_and_write_at_once_both_succeed(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    stores = [
        SqliteStore(tmp_path / "store.db", wait_seconds=30, notice=lambda *it: heard.append(it))
        for _ in range(2)
    ]
    for store in stores:
        await store.open()

    async def work(store: SqliteStore, name: int) -> bool:
        key = b"%d" % name
        return await store.put("kind", key, key, DAY) and key in await store.get_many("kind", [key])

    done = await asyncio.gather(*(work(store, number) for number in range(150) for store in stores))
    for store in stores:
        await store.close()

    assert all(done)
    assert heard == []
