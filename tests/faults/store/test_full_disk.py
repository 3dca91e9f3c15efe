"""D3: a disk, or a file, that takes no more."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journeys.replicas.fleet import fleet_of
from tests.journeys.summaries.talking import WINDOW, label, other_chat, prose, talking
from tests.support.conversations import get
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import calls, result, user
from tests.unit.store.places import store_in_file

pytestmark = pytest.mark.anyio

SMALL_FILE_BYTES = 40_960
DEGRADED = b'{"status":"ready","degraded":"store"}'

FULL_DISK = """
import asyncio, resource, sqlite3, sys
from pathlib import Path
from chat_proxy.store.sqlite.store import SqliteStore

async def main():
    heard = []
    store = SqliteStore(Path(sys.argv[1]), notice=lambda *said: heard.append(said), wait_seconds=10)
    await store.open()
    await store.put("kind", b"first", b"1", 86_400)
    assert not store.is_in_trouble
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
    kept = [await store.put("kind", b"%d" % n, bytes(100_000), 86_400) for n in range(10)]
    assert not all(kept), kept
    assert store.is_in_trouble
    assert heard and {operation for operation, _ in heard} == {"put"}, heard
    names = [b"first", *(b"%d" % n for n in range(10))]
    assert len(await store.get_many("kind", names)) == 1 + sum(kept)
    await store.close()
    (verdict,) = sqlite3.connect(sys.argv[1]).execute("PRAGMA integrity_check").fetchone()
    assert verdict == "ok", verdict

asyncio.run(main())
"""


async def test_d3_a_full_file_costs_reuse_and_nothing_else(tmp_path: Path) -> None:
    """By the file's own limit, which SQLite answers like a full disk."""
    brain = SummaryModel(window=WINDOW)
    store = store_in_file(tmp_path, max_bytes=SMALL_FILE_BYTES)
    async with fleet_of(2, brain, store) as fleet:
        chats = [other_chat(number, 16) for number in range(4)]
        for chat in chats:
            assert label(await fleet.ask(chat)) == "built"
        again = [await fleet.ask(chat) for chat in chats]
        refused = fleet.store_errors("full")

    assert [label(it) for it in again] == ["reused"] * len(chats)
    assert refused > 0


async def test_d3_a_full_file_leaves_texts_inline_and_the_proxy_ready(tmp_path: Path) -> None:
    log = prose(20_000, "the log")
    given = [user("Read the log"), calls("1"), result("1", log)]
    store = store_in_file(tmp_path, max_bytes=SMALL_FILE_BYTES)
    async with talking(SummaryModel(), window=200_000, store=store) as talk:
        before = await get(talk.line, "/readyz")
        asked = await talk.ask(given)
        after = await get(talk.line, "/readyz")
        figures = (await get(talk.line, "/metrics")).body

    assert json.loads(before.body) == {"status": "ready"}
    assert asked.upstream == asked.body
    assert (after.status, after.body) == (200, DEGRADED)
    assert b"\nchat_proxy_store_degraded 1.0\n" in figures


def test_d3_a_disk_that_takes_no_more_costs_rows_and_nothing_else(tmp_path: Path) -> None:
    """By a limit on the size of files, as a quota has it."""
    subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path / "store.db")], check=True)
