"""Issue 7, point 3; FAULTS D over HTTP: proxies whose SQLite file is in trouble, and one shared."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.proxy.checkpoints import ASK_AGAIN_SECONDS
from tests.replicas.fleet import fleet_of
from tests.replicas.telling import numbered
from tests.summaries.talking import WINDOW, body_of, label, long_chat, post
from tests.support.summary_model import SummaryModel

pytestmark = pytest.mark.anyio

LOCK_BOUND_SECONDS = 0.25
SMALL_FILE_BYTES = 40_960


def place_in(folder: Path) -> Path:
    """Where the file is."""
    return folder / "data" / "store.db"


def store_in_file(folder: Path, **more: Any) -> dict[str, Any]:
    """The section that names it."""
    return {"url": f"sqlite:///{place_in(folder)}", **more}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file's lock for writers."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def garbage(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database" * 500)


def cut_short(path: Path) -> None:
    """A database whose second half is missing."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as whole:
        whole.execute("CREATE TABLE rows (key BLOB)")
        whole.executemany("INSERT INTO rows VALUES (?)", [(bytes(900),) for _ in range(100)])
        whole.commit()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def newer(path: Path) -> None:
    """A file of a version that is yet to come."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as future:
        future.execute("CREATE TABLE what_comes (later BLOB)")
        future.execute("PRAGMA user_version = 99")


def no_folder(path: Path) -> None:
    """A file where the folder should be: not even the superuser can write in it."""
    path.parent.write_text("no folder")


def empty(path: Path) -> None:
    path.parent.mkdir()
    path.touch()


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


async def test_a_locked_file_is_read_and_nobody_waits_long(tmp_path: Path) -> None:
    """FAULTS D1: each write costs its bound at most, and what was there is reused."""
    brain = SummaryModel(window=WINDOW)
    async with fleet_of(2, brain, store_in_file(tmp_path)) as fleet:
        writer, reader = fleet.talks
        await writer.ask(long_chat())
        with locked(place_in(tmp_path)):
            start = asyncio.get_running_loop().time()
            reused = await reader.ask(long_chat())
            built = await writer.ask(long_chat(16)[1:])
            again = await writer.ask(long_chat(16)[1:])
            seconds = asyncio.get_running_loop().time() - start
        errors = fleet.store_errors("busy") + fleet.store_errors("slow")

    assert [label(it) for it in (reused, built, again)] == ["reused", "built", "reused"]
    assert again.upstream == built.upstream
    assert seconds < 4 * LOCK_BOUND_SECONDS + 1
    assert errors > 0


async def test_a_file_is_shared_again_when_its_lock_is_gone(tmp_path: Path) -> None:
    """FAULTS D1."""
    brain = SummaryModel(window=WINDOW)
    async with fleet_of(2, brain, store_in_file(tmp_path)) as fleet:
        with locked(place_in(tmp_path)):
            await fleet.ask(long_chat())
        await asyncio.sleep(2 * LOCK_BOUND_SECONDS)
        one, other = await fleet.ask_all(long_chat()[1:])

    assert (label(one), label(other)) == ("built", "reused")


@pytest.mark.parametrize("trouble", [garbage, cut_short, newer, no_folder, empty])
async def test_a_proxy_starts_and_serves_whatever_the_file_is(
    tmp_path: Path, trouble: Callable[[Path], None]
) -> None:
    """FAULTS D4, D5, D10: it makes room, and remembers it for as long as it runs."""
    trouble(place_in(tmp_path))
    brain = SummaryModel(window=WINDOW)
    async with fleet_of(1, brain, store_in_file(tmp_path)) as fleet:
        built = await fleet.ask(long_chat())
        again = await fleet.ask(long_chat())

    assert [label(it) for it in (built, again)] == ["built", "reused"]
    assert again.upstream == built.upstream
    assert len(brain.summaries) == 1


@pytest.mark.parametrize("trouble", [garbage, cut_short])
async def test_a_damaged_file_is_kept_aside_and_its_successor_is_shared(
    tmp_path: Path, trouble: Callable[[Path], None]
) -> None:
    """FAULTS D4: nothing is deleted, and the second proxy takes the new file for whole."""
    trouble(place_in(tmp_path))
    damaged = place_in(tmp_path).read_bytes()
    brain = SummaryModel(window=WINDOW)
    async with fleet_of(2, brain, store_in_file(tmp_path)) as fleet:
        asked = await fleet.ask_all(long_chat())

    (aside,) = place_in(tmp_path).parent.glob("*.corrupt-*")
    assert aside.read_bytes() == damaged
    assert [label(it) for it in asked] == ["built", "reused"]
    assert len({it.upstream for it in asked}) == 1


async def test_a_newer_file_is_not_touched(tmp_path: Path) -> None:
    """FAULTS D10."""
    newer(place_in(tmp_path))
    before = place_in(tmp_path).read_bytes()
    brain = SummaryModel(window=WINDOW)
    async with fleet_of(1, brain, store_in_file(tmp_path)) as fleet:
        await fleet.ask(long_chat())

    assert place_in(tmp_path).read_bytes() == before


async def test_a_file_that_is_damaged_while_it_is_used_costs_reuse_and_nothing_else(
    tmp_path: Path,
) -> None:
    """FAULTS D4: memory goes on alone."""
    brain = SummaryModel(window=WINDOW)
    async with fleet_of(2, brain, store_in_file(tmp_path)) as fleet:
        knows, other = fleet.talks
        before = await knows.ask(long_chat())
        for file in place_in(tmp_path).parent.glob("store.db*"):
            if not file.name.endswith(".secret"):
                file.write_bytes(b"garbage" * 4_000)
        after = [await knows.ask(long_chat()), await other.ask(long_chat())]
        later = [await knows.ask(long_chat()), await other.ask(long_chat())]

    assert label(after[0]) == "reused"
    assert after[0].upstream == before.upstream
    assert label(after[1]) in ("built", "reused")
    assert [label(it) for it in later] == ["reused", "reused"]


async def test_a_full_file_costs_reuse_and_nothing_else(tmp_path: Path) -> None:
    """FAULTS D3: by the file's own limit, which SQLite answers like a full disk."""
    brain = SummaryModel(window=WINDOW)
    store = store_in_file(tmp_path, max_bytes=SMALL_FILE_BYTES)
    async with fleet_of(2, brain, store) as fleet:
        chats = [long_chat()[start:] for start in (0, 1, 3, 5)]
        for chat in chats:
            assert label(await fleet.ask(chat)) == "built"
        again = [await fleet.ask(chat) for chat in chats]
        refused = fleet.store_errors("full")

    assert [label(it) for it in again] == ["reused"] * len(chats)
    assert refused > 0
