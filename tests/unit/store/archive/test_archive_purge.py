"""What leaves the archive: by age, by size, by tenant, everything."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chat_proxy.store.archive.dialog import DialogPlace
from chat_proxy.store.base import StoreUnavailable
from chat_proxy.store.purge_selection import Purged, Selection
from tests.support.read_dialog import read_dialog
from tests.unit.store.kept import DAY, NOON, OTHER, TENANT, Kept

pytestmark = pytest.mark.anyio

CANARY = "canary-of-the-deleted-tenant"
SAID = {"role": "user", "content": CANARY}
HELLO = {"role": "user", "content": "hello"}


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    made = Kept(tmp_path / "data")
    yield made
    await made.archive.close()


def canaries(root: Path, *words: str) -> list[str]:
    """The files that have one of the words in them or in their name."""
    return [
        path.name
        for path in root.rglob("*")
        if path.is_file()
        and any(word.encode() in path.name.encode() + path.read_bytes() for word in words)
    ]


async def test_what_is_older_than_the_retention_is_swept(kept: Kept) -> None:
    """FAULTS F21."""
    await kept.dialog("old", HELLO)
    await kept.result(1, "old")
    kept.clock.now += DAY
    await kept.dialog("new", HELLO)
    await kept.result(2, "new")

    kept.clock.now = NOON + 5 * DAY
    await kept.archive.sweep()

    assert kept.files() == {
        "dialog/2026-03-02.jsonl",
        "dialog/2026-03-02.index",
        f"tool_result/{2:032x}.txt",
        "tool_result/owners",
    }
    assert f"{1:032x}" not in (kept.root / "tool_result" / "owners").read_text()


async def test_a_day_s_file_stays_until_its_last_line_is_old(kept: Kept) -> None:
    await kept.dialog("early", HELLO)
    kept.clock.now += DAY / 4
    await kept.dialog("late", HELLO)

    kept.clock.now = NOON + 5 * DAY
    await kept.archive.sweep()
    stays = kept.files()
    kept.clock.now += DAY / 4
    await kept.archive.sweep()

    assert stays == {"dialog/2026-03-01.jsonl", "dialog/2026-03-01.index"}
    assert kept.files() == set()


async def test_a_restored_file_is_as_old_as_its_name_says(kept: Kept) -> None:
    folder = kept.root / "dialog"
    folder.mkdir(parents=True)
    (folder / "2020-01-01.jsonl").write_text("restored from a backup just now\n")

    await kept.archive.sweep()

    assert kept.files() == set()


async def test_the_archive_sweeps_by_itself(kept: Kept) -> None:
    await kept.dialog("old", HELLO)
    kept.clock.now += 6 * DAY

    await kept.archive.open()
    for _ in range(100):
        await asyncio.sleep(0.02)
        if not kept.files():
            break

    assert kept.files() == set()


async def test_files_of_others_in_the_folders_stay(kept: Kept) -> None:
    await kept.dialog("chain", HELLO)
    for name in ("dialog/notes.jsonl", "dialog/2026-99-99.jsonl", "tool_result/read.me"):
        (kept.root / name).write_text("not ours")
    (kept.root / "dialog" / "2026-01-01.jsonl").mkdir()

    await kept.archive.purge(Selection())

    assert kept.files() == {
        "dialog/notes.jsonl",
        "dialog/2026-99-99.jsonl",
        "tool_result/read.me",
    }


async def test_the_oldest_gives_way_when_the_archive_is_full(tmp_path: Path) -> None:
    """FAULTS D12."""
    kept = Kept(tmp_path, max_bytes=10_000)
    await kept.dialog("oldest", {"role": "user", "content": "x" * 3_000})
    kept.clock.now += DAY
    for number in range(20):
        kept.clock.now += 1
        assert await kept.result(number, "y" * 2_000)

    left = {name for name in kept.files() if name.endswith(".txt")}

    assert f"tool_result/{19:032x}.txt" in left
    assert f"tool_result/{0:032x}.txt" not in left
    assert not any("dialog" in name for name in kept.files())
    assert sum((tmp_path / name).stat().st_size for name in kept.files()) <= 10_500
    await kept.archive.close()


async def test_a_text_that_would_not_fit_even_so_is_refused_and_costs_nothing(
    tmp_path: Path,
) -> None:
    """FAULTS D12."""
    kept = Kept(tmp_path, max_bytes=10_000)
    await kept.result(1, "y" * 2_000)
    await kept.dialog("today", {"role": "user", "content": "x" * 6_000})
    before = kept.files()

    assert await kept.result(2, "z" * 20_000) is None
    assert await kept.result(3, "z" * 5_000) is None

    assert kept.heard == [("archive_result", "edquot")] * 2
    assert kept.files() == before
    await kept.archive.close()


async def test_a_lower_limit_is_reached_by_the_next_sweep(tmp_path: Path) -> None:
    roomy, tight = Kept(tmp_path), Kept(tmp_path, max_bytes=5_000)
    await roomy.dialog("today", {"role": "user", "content": "x" * 6_000})
    for number in range(5):
        await roomy.result(number, "y" * 2_000)

    await tight.archive.sweep()

    assert tight.files() == {
        "dialog/2026-03-01.jsonl",
        "dialog/2026-03-01.index",
        "tool_result/owners",
    }
    await roomy.archive.close()
    await tight.archive.close()


async def test_a_tenant_goes_and_the_others_lines_keep_their_numbers(kept: Kept) -> None:
    """FAULTS F21."""
    await kept.dialog("theirs", SAID, SAID)
    other = await kept.archive.keep_dialog(OTHER, "other", [HELLO])
    await kept.result(1, CANARY)
    await kept.result(2, "another's", OTHER)

    purged = await kept.archive.purge(Selection(tenant=TENANT))

    assert (purged.files, purged.lines) == (1, 2)
    assert purged.bytes > 2 * len(CANARY)
    assert canaries(kept.root, CANARY, TENANT) == []
    assert other == DialogPlace("dialog/2026-03-01.jsonl", 3, 3)
    assert kept.lines(other) == [HELLO]
    assert await kept.archive.keep_dialog(OTHER, "other", [HELLO]) == other
    assert await kept.result(2, "another's", OTHER)
    assert read_dialog(kept.root, TENANT, "theirs") == []


async def test_a_tenant_who_comes_back_is_written_anew(kept: Kept) -> None:
    await kept.dialog("chain", SAID)
    await kept.archive.purge(Selection(tenant=TENANT))

    again = await kept.dialog("chain", SAID)

    assert again.first == 2
    assert kept.lines(again) == [SAID]


async def test_a_second_purge_finds_nothing(kept: Kept) -> None:
    await kept.dialog("chain", SAID)
    await kept.archive.purge(Selection(tenant=TENANT))

    assert await kept.archive.purge(Selection(tenant=OTHER)) == Purged()
    assert (kept.root / "dialog" / "2026-03-01.jsonl").read_bytes() == b"\n"


async def test_what_may_be_the_tenant_s_goes_with_it(kept: Kept) -> None:
    """FAULTS F21: half lines, drafts, and what says no owner."""
    await kept.archive.keep_dialog(OTHER, "other", [HELLO])
    await kept.result(1, "other", OTHER)
    with (kept.root / "dialog" / "2026-03-01.jsonl").open("ab") as file:
        file.write(f"not a line of ours {CANARY}\n".encode())
        file.write(f'{{"tenant":"{TENANT}","chain":"x","message":"{CANARY}'.encode())
    with (kept.root / "dialog" / "2026-03-01.index").open("ab") as file:
        file.write(f"half {TENANT}".encode())
    (kept.root / "tool_result" / f"{7:032x}.txt").write_text(CANARY)
    (kept.root / "tool_result" / f"{8:032x}.txt.draft").write_text(CANARY)

    await kept.archive.purge(Selection(tenant=TENANT))

    assert canaries(kept.root, CANARY, TENANT) == []
    assert read_dialog(kept.root, OTHER, "other") == [HELLO]
    assert (kept.root / "tool_result" / f"{1:032x}.txt").read_text() == "other"


async def test_a_half_line_goes_though_the_tenant_has_no_whole_one(kept: Kept) -> None:
    await kept.archive.keep_dialog(OTHER, "other", [HELLO])
    with (kept.root / "dialog" / "2026-03-01.jsonl").open("ab") as file:
        file.write(CANARY.encode())

    assert await kept.archive.purge(Selection(tenant=TENANT)) == Purged()

    assert canaries(kept.root, CANARY) == []


async def test_a_tenant_with_nothing_costs_the_others_nothing(kept: Kept) -> None:
    place = await kept.archive.keep_dialog(OTHER, "other", [HELLO])
    assert place is not None
    inode = (kept.root / place.file).stat().st_ino

    assert await kept.archive.purge(Selection(tenant=TENANT)) == Purged()

    assert (kept.root / place.file).stat().st_ino == inode


async def test_purging_by_tenant_makes_no_line_younger(kept: Kept) -> None:
    await kept.archive.keep_dialog(OTHER, "other", [HELLO])
    await kept.dialog("theirs", SAID)
    kept.clock.now = NOON + 4 * DAY
    await kept.archive.purge(Selection(tenant=TENANT))

    kept.clock.now = NOON + 5 * DAY
    await kept.archive.sweep()

    assert kept.files() == set()


async def test_purging_by_age_and_tenant_takes_only_what_is_both(kept: Kept) -> None:
    await kept.dialog("old", SAID)
    await kept.archive.keep_dialog(OTHER, "other", [HELLO])
    kept.clock.now += DAY
    await kept.dialog("new", HELLO)

    selection = Selection.of(0.5, TENANT, kept.clock.now, everything=False)
    purged = await kept.archive.purge(selection)

    assert purged.lines == 1
    assert read_dialog(kept.root, TENANT, "new") == [HELLO]
    assert read_dialog(kept.root, OTHER, "other") == [HELLO]


async def test_purging_by_age_takes_what_was_last_written_before(kept: Kept) -> None:
    await kept.dialog("old", HELLO, HELLO)
    await kept.result(1, "old")
    kept.clock.now += DAY
    await kept.dialog("new", HELLO)

    purged = await kept.archive.purge(Selection.of(1, None, kept.clock.now, everything=False))

    assert (purged.files, purged.lines) == (2, 2)
    assert kept.files() == {
        "dialog/2026-03-02.jsonl",
        "dialog/2026-03-02.index",
        "tool_result/owners",
    }


async def test_purging_everything_leaves_no_word(kept: Kept) -> None:
    await kept.dialog("chain", SAID)
    await kept.result(1, CANARY)

    await kept.archive.purge(Selection.of(None, None, NOON, everything=True))

    assert canaries(kept.root, CANARY, TENANT) == []


async def test_a_purge_that_cannot_be_done_says_so(kept: Kept) -> None:
    kept.root.write_text("a file where the folder should be")

    with pytest.raises(StoreUnavailable, match="File exists"):
        await kept.archive.purge(Selection())


@pytest.mark.parametrize(
    ("days", "tenant", "everything", "said"),
    [
        (None, None, False, "specify what to delete"),
        (1, None, True, "use it alone"),
        (None, TENANT, True, "use it alone"),
        (-1, None, False, "must be a number of days"),
        (float("nan"), None, False, "must be a number of days"),
    ],
)
def test_a_selection_must_be_clear(
    days: float | None, tenant: str | None, everything: bool, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Selection.of(days, tenant, NOON, everything=everything)
