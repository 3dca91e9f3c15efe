"""One tenant does not fill the archive: its own oldest originals go first."""

from pathlib import Path
from typing import Any

import pytest

from chat_proxy.store.archive.dialog import DialogPlace
from tests.unit.store.kept import DAY, OTHER, TENANT, Kept

pytestmark = pytest.mark.anyio

TENANT_BYTES = 20_000


def said(letter: str, size: int = 3_000) -> dict[str, Any]:
    return {"role": "user", "content": letter * size}


def bytes_of(kept: Kept, letters: str) -> int:
    """How many of these letters are left in the archive's files."""
    texts = [(kept.root / name).read_text() for name in kept.files() if "owners" not in name]
    return sum(text.count(letter) for text in texts for letter in letters)


async def keep(kept: Kept, tenant: str, chain: str, message: dict[str, Any]) -> DialogPlace | None:
    kept.clock.now += 1
    return await kept.archive.keep_dialog(tenant, chain, [message])


async def test_a_tenant_over_its_quota_loses_its_own_oldest_results(tmp_path: Path) -> None:
    """Issue 22, 11."""
    kept = Kept(tmp_path, tenant_max_bytes=TENANT_BYTES)
    assert await kept.result(1_000, "polite", OTHER)
    for number in range(100):
        kept.clock.now += 1
        assert await kept.result(number, "y" * 2_000)

    left = {name for name in kept.files() if name.endswith(".txt")}
    assert f"tool_result/{1_000:032x}.txt" in left
    assert f"tool_result/{99:032x}.txt" in left
    assert f"tool_result/{0:032x}.txt" not in left
    assert 5 <= len(left) - 1 <= 10
    assert kept.heard == []
    await kept.archive.close()


async def test_a_tenant_over_its_quota_loses_its_oldest_lines_of_today_and_others_keep_theirs(
    tmp_path: Path,
) -> None:
    kept = Kept(tmp_path, tenant_max_bytes=TENANT_BYTES)
    first = await keep(kept, OTHER, "polite", said("p"))
    places = [await keep(kept, TENANT, f"chain-{number}", said("g")) for number in range(30)]
    last = await keep(kept, OTHER, "polite-2", said("q"))

    assert first is not None
    assert last is not None
    assert None not in places
    assert kept.lines(first) == [said("p")]
    assert kept.lines(last) == [said("q")]
    assert places[-1] is not None
    assert kept.lines(places[-1]) == [said("g")]
    assert 3_000 <= bytes_of(kept, "g") <= TENANT_BYTES
    assert kept.heard == []
    await kept.archive.close()


async def test_a_text_over_the_quota_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    kept = Kept(tmp_path, tenant_max_bytes=TENANT_BYTES)
    await kept.result(1, "y" * 2_000)
    before = kept.files()

    assert await kept.result(2, "z" * (TENANT_BYTES + 1)) is None

    assert kept.heard == [("archive_result", "edquot")]
    assert kept.files() == before
    await kept.archive.close()


async def test_a_full_archive_takes_from_the_largest_tenant(tmp_path: Path) -> None:
    """Even if the other one's original is the oldest of all."""
    kept = Kept(tmp_path, max_bytes=30_000)
    await kept.result(1_000, "polite", OTHER)
    polite = await keep(kept, OTHER, "polite", said("p"))
    kept.clock.now += DAY
    for number in range(40):
        kept.clock.now += 1
        assert await kept.result(number, "y" * 2_000)

    assert polite is not None
    assert kept.lines(polite) == [said("p")]
    assert f"tool_result/{1_000:032x}.txt" in kept.files()
    assert sum((tmp_path / name).stat().st_size for name in kept.files()) <= 33_000
    await kept.archive.close()


async def test_a_day_of_which_nothing_is_left_goes(tmp_path: Path) -> None:
    kept = Kept(tmp_path, tenant_max_bytes=TENANT_BYTES)
    await keep(kept, TENANT, "old", said("o"))
    kept.clock.now += DAY
    for number in range(10):
        await keep(kept, TENANT, f"new-{number}", said("n"))

    assert {name for name in kept.files() if "dialog" in name} == {
        "dialog/2026-03-02.jsonl",
        "dialog/2026-03-02.index",
    }
    await kept.archive.close()


async def test_spans_of_an_older_version_are_found_and_do_not_count(tmp_path: Path) -> None:
    """Their sizes are not known; they go with their retention."""
    kept = Kept(tmp_path, tenant_max_bytes=TENANT_BYTES)
    place = await kept.dialog("old", said("o"))
    index = tmp_path / "dialog" / "2026-03-01.index"
    index.write_text(index.read_text().rpartition(" ")[0] + "\n")

    assert await kept.dialog("old", said("o")) == place
    for number in range(20):
        await keep(kept, TENANT, f"new-{number}", said("n"))

    assert kept.lines(place) == [said("o")]
    await kept.archive.close()
