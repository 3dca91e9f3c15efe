"""D4, D5, D10, D11: files that are damaged, cannot be had, or are of another version or kind."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from chat_proxy.store.sqlite.schema import SCHEMA_VERSION
from tests.journeys.replicas.fleet import fleet_of
from tests.journeys.summaries.talking import WINDOW, label, long_chat, talking
from tests.support.command import run_command
from tests.support.conversations import get, listening
from tests.support.summary_model import SummaryModel
from tests.unit.store.places import (
    FIRST_FORM,
    cut_short,
    empty,
    garbage,
    newer,
    no_folder,
    place_in,
    store_in_file,
)

pytestmark = pytest.mark.anyio

READY, DEGRADED = b'{"status":"ready"}', b'{"status":"ready","degraded":"store"}'
NOWHERE = "sqlite:////proc/chat-proxy/store.db"
"""A place where not even the superuser can make a file."""


TRIGGERS = ("TRIGGER row_added", "TRIGGER row_deleted", "TRIGGER row_replaced")


def no_place(path: Path) -> None:
    """Leave out the folder, which is made."""


def older(path: Path) -> None:
    """Write the file as the first version had it: values among keys, and no owners."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for what in ("INDEX rows_by_expiry", "INDEX rows_by_owner", *TRIGGERS, "TABLE usage"):
            file.execute(f"DROP {what}")
        file.execute("ALTER TABLE rows RENAME TO newer")
        file.executescript(FIRST_FORM)
        file.execute("INSERT INTO rows SELECT kind, key, value, expires, seal FROM newer")
        file.execute("DROP TABLE newer")


def version_of(path: Path) -> int:
    """Return the version that a file says it has."""
    with closing(sqlite3.connect(path)) as file:
        (version,) = file.execute("PRAGMA user_version").fetchone()
    return int(version)


@pytest.mark.parametrize("trouble", [garbage, cut_short])
async def test_d4_a_damaged_file_is_kept_aside_and_its_successor_is_shared(
    tmp_path: Path, trouble: Callable[[Path], None]
) -> None:
    """Nothing is deleted, and the second proxy takes the new file for whole."""
    trouble(place_in(tmp_path))
    damaged = place_in(tmp_path).read_bytes()
    brain = SummaryModel(window=WINDOW)
    async with fleet_of(2, brain, store_in_file(tmp_path)) as fleet:
        asked = await fleet.ask_all(long_chat())
        ready = await get(fleet.talks[0].line, "/readyz")

    (aside,) = place_in(tmp_path).parent.glob("*.corrupt-*")
    assert aside.read_bytes() == damaged
    assert [label(it) for it in asked] == ["built", "reused"]
    assert len({it.upstream for it in asked}) == 1
    assert ready.body == READY


async def test_d4_a_file_that_is_damaged_while_it_is_used_costs_reuse_and_nothing_else(
    tmp_path: Path,
) -> None:
    """Memory goes on alone, which readiness tells."""
    brain = SummaryModel(window=WINDOW)
    async with fleet_of(2, brain, store_in_file(tmp_path)) as fleet:
        knows, other = fleet.talks
        before = await knows.ask(long_chat())
        for file in place_in(tmp_path).parent.glob("store.db*"):
            if not file.name.endswith(".secret"):
                file.write_bytes(b"garbage" * 4_000)
        after = [await knows.ask(long_chat()), await other.ask(long_chat())]
        later = [await knows.ask(long_chat()), await other.ask(long_chat())]
        ready = await get(other.line, "/readyz")

    assert label(after[0]) == "reused"
    assert after[0].upstream == before.upstream
    assert label(after[1]) in ("built", "reused")
    assert [label(it) for it in later] == ["reused", "reused"]
    assert (ready.status, ready.body) == (200, DEGRADED)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [(no_place, READY), (empty, READY), (no_folder, DEGRADED), (newer, DEGRADED)],
)
async def test_d5_a_proxy_starts_and_serves_whatever_the_place_is(
    tmp_path: Path, trouble: Callable[[Path], None], said: bytes
) -> None:
    """It makes room, and remembers it for as long as it runs."""
    trouble(place_in(tmp_path))
    brain = SummaryModel(window=WINDOW)
    async with fleet_of(1, brain, store_in_file(tmp_path)) as fleet:
        built = await fleet.ask(long_chat())
        again = await fleet.ask(long_chat())
        ready = await get(fleet.talks[0].line, "/readyz")

    assert [label(it) for it in (built, again)] == ["built", "reused"]
    assert again.upstream == built.upstream
    assert len(brain.summaries) == 1
    assert (ready.status, ready.body) == (200, said)


async def test_d5_a_store_that_is_required_and_cannot_be_had_stops_the_start() -> None:
    ended = await run_command("serve", STORE_URL=NOWHERE, STORE_REQUIRED="true")

    assert ended.code == 3
    (line,) = (it for it in ended.err.splitlines() if '"chat-proxy starts"' not in it)
    assert "the store that is required cannot be used" in line
    assert "/proc/chat-proxy/store.db: " in line


async def test_d10_an_older_file_is_brought_up_to_date_by_two_at_once(tmp_path: Path) -> None:
    """Nothing is lost, and a copy of before is kept."""
    brain = SummaryModel(window=WINDOW)
    store = store_in_file(tmp_path)
    async with talking(brain, store=store) as talk:
        before = await talk.ask(long_chat())
    older(place_in(tmp_path))

    async def start_anew() -> tuple[str, bytes]:
        async with talking(brain, store=store) as talk:
            asked = await talk.ask(long_chat())
            return label(asked), asked.upstream

    after = await asyncio.gather(start_anew(), start_anew())

    assert set(after) == {("reused", before.upstream)}
    assert len(brain.summaries) == 1
    assert version_of(place_in(tmp_path)) == SCHEMA_VERSION
    (copy,) = place_in(tmp_path).parent.glob("store.db.v1")
    assert version_of(copy) == 1


async def test_d10_a_newer_file_is_not_touched_and_that_is_told(tmp_path: Path) -> None:
    newer(place_in(tmp_path))
    before = place_in(tmp_path).read_bytes()
    brain = SummaryModel(window=WINDOW)
    with listening() as heard:
        async with fleet_of(1, brain, store_in_file(tmp_path)) as fleet:
            await fleet.ask(long_chat())
            ready = await get(fleet.talks[0].line, "/readyz")

    assert place_in(tmp_path).read_bytes() == before
    assert ready.body == DEGRADED
    (line,) = heard.lines("memory serves in place of the store")
    assert line["reason"].endswith("store.db: written by a newer version of chat-proxy")


async def test_d11_a_database_of_another_kind_is_refused_by_one_line() -> None:
    """There is no such store, so nothing of it can fail; its password is not repeated."""
    ended = await run_command("serve", STORE_URL="postgres://ann:canary@db/chat")

    assert ended.code == 2
    (line,) = ended.err.splitlines()
    assert line == (
        "chat-proxy: CHAT_PROXY_STORE_URL: must be sqlite:///path, "
        "redis://host:port/database or memory:"
    )
