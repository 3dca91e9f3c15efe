"""D13: clocks that jump by a day, or by years, and come back."""

import os
from itertools import count
from pathlib import Path

import pytest

from chat_proxy.store.archive import archive
from chat_proxy.store.base import MAX_TTL_SECONDS
from chat_proxy.store.sqlite.store import SWEEP_EVERY, SqliteStore
from tests.journeys.summaries.talking import WINDOW, label, long_chat, talking
from tests.support.live import eventually
from tests.support.summary_model import SummaryModel
from tests.unit.store.kept import DAY, NOON, Clock, Kept
from tests.unit.store.places import place_in, store_in_file

pytestmark = pytest.mark.anyio

YEARS = 10 * 366 * DAY
HELLO = {"role": "user", "content": "hello"}
_numbers = count()


def store_by(clock: Clock, folder: Path) -> SqliteStore:
    """A store in a file that goes by this clock."""
    return SqliteStore(folder / "store.db", clock=clock, wait_seconds=30)


async def sweep(store: SqliteStore) -> None:
    """Put so often that a sweep is due."""
    for _ in range(SWEEP_EVERY):
        assert await store.put("other", b"%d" % next(_numbers), b"", DAY)


@pytest.mark.parametrize("jump", [DAY, -DAY], ids=["ahead", "back"])
async def test_d13_a_clock_that_jumps_a_day_and_back_deletes_nothing(
    tmp_path: Path, jump: float
) -> None:
    clock = Clock()
    store = store_by(clock, tmp_path)
    await store.open()
    rows = {b"%d" % number: b"%d" % number for number in range(50)}
    for key, value in rows.items():
        await store.put("kind", key, value, 60 if int(key) % 2 else MAX_TTL_SECONDS)

    clock.now += jump
    await sweep(store)
    clock.now -= jump

    assert await store.get_many("kind", list(rows)) == rows
    await store.close()


@pytest.mark.parametrize("jump", [DAY, -DAY, YEARS], ids=["ahead", "back", "years ahead"])
async def test_d13_what_a_wrong_clock_wrote_is_gone_in_the_end(tmp_path: Path, jump: float) -> None:
    clock = Clock()
    store = store_by(clock, tmp_path)
    await store.open()
    clock.now += jump
    await store.put("kind", b"a", b"1", DAY)
    clock.now -= jump

    for _ in range(4):
        clock.now += DAY
        await sweep(store)

    assert await store.get_many("kind", [b"a"]) == {}
    clock.now -= 4 * DAY
    assert await store.get_many("kind", [b"a"]) == {}
    await store.close()


@pytest.mark.parametrize("jump", [DAY, -DAY], ids=["ahead", "back"])
async def test_d13_a_summary_outlives_a_clock_that_jumped_while_the_proxy_was_away(
    tmp_path: Path, jump: float
) -> None:
    brain = SummaryModel(window=WINDOW)
    async with talking(brain, store=store_in_file(tmp_path)) as talk:
        before = await talk.ask(long_chat())
    async with talking(brain, store=store_in_file(tmp_path)) as talk:
        clock = talk.proxy.services.store._store._clock  # type: ignore[attr-defined]
        talk.proxy.services.store._store._clock = lambda: clock() + jump  # type: ignore[attr-defined]
        after = await talk.ask(long_chat())

    assert (label(before), label(after)) == ("built", "reused")
    assert after.upstream == before.upstream
    assert place_in(tmp_path).exists()


class Jumping(Clock):
    """A clock that is six days ahead when it is asked for the fifth and the sixth time."""

    asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.now + (6 * DAY if self.asked in (5, 6) else 0)


def texts(kept: Kept) -> set[str]:
    """The files that hold anything of a conversation."""
    return {name for name in kept.files() if not name.endswith("owners")}


async def test_d13_a_regular_sweep_does_not_go_by_a_clock_that_has_just_jumped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "SWEEP_SECONDS", 0.01)
    kept = Kept(tmp_path)
    await kept.dialog("chain", HELLO)
    await kept.result(1, "a text")
    there = texts(kept)
    kept.archive._clock = clock = Jumping()

    await kept.archive.open()
    await eventually(lambda: clock.asked > 20)
    still = texts(kept)
    clock.now += 6 * DAY
    await eventually(lambda: not texts(kept))
    await kept.archive.close()

    assert len(there) == 3
    assert still == there


async def test_d13_files_that_a_wrong_clock_dated_ahead_are_deleted_in_the_end(
    tmp_path: Path,
) -> None:
    kept = Kept(tmp_path)
    kept.clock.now += YEARS
    await kept.dialog("chain", HELLO)
    await kept.result(1, "a text")
    kept.clock.now = NOON

    await kept.archive.sweep()
    first = texts(kept)
    kept.clock.now += 6 * DAY
    await kept.archive.sweep()

    assert len(first) == 3
    assert texts(kept) == set()
    await kept.archive.close()


async def test_d13_a_file_dated_a_day_ahead_is_left_as_it_is(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    path = await kept.result(1, "a text")
    assert path is not None
    os.utime(path, (NOON + DAY, NOON + DAY))

    await kept.archive.sweep()

    assert path.stat().st_mtime == NOON + DAY
    await kept.archive.close()
