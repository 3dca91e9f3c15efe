"""The page shows what a running proxy writes, and nothing else."""

import pytest

from docs.troubleshooting import PAGE, page, section_of
from tests.troubleshooting.catalogue import SITUATIONS, Situation

NAMES = [situation.title for situation in SITUATIONS]


def test_there_are_fifteen_situations_and_each_has_a_remedy() -> None:
    assert len(set(NAMES)) == 15
    assert all(situation.remedy.endswith((".", ")")) for situation in SITUATIONS)


@pytest.mark.anyio
@pytest.mark.parametrize("situation", SITUATIONS, ids=NAMES)
async def test_a_situation_shows_the_lines_of_the_page(situation: Situation) -> None:
    seen = await situation.show()

    assert seen.log, "the operator sees nothing"
    section = "\n".join(section_of(NAMES.index(situation.title) + 1, situation, seen))
    assert section in PAGE.read_text(encoding="utf-8")


@pytest.mark.anyio
async def test_the_whole_page_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docs.troubleshooting.SITUATIONS", SITUATIONS[:1])

    made = await page()

    written = PAGE.read_text(encoding="utf-8")
    assert made.partition("\n| [1]")[0] == written.partition("\n| [1]")[0]
    assert made.partition("## Questions")[2] == written.partition("## Questions")[2]
