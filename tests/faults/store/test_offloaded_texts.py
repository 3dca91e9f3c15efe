"""D12, D15: texts that were cut from a prompt, and what may become of them."""

import asyncio
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.store.archive.archive import Archive
from tests.journeys.summaries.talking import Talk, label, prose, talking
from tests.journeys.trimming.growing import Asked
from tests.support.conversations import get
from tests.support.live import eventually
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields, calls, result, user
from tests.unit.store.kept import TENANT
from tests.unit.store.places import place_in, store_in_file

pytestmark = pytest.mark.anyio

NAMES = [f"{number:032x}" for number in range(40)]
TOOLS = {"max_bytes": 3_000}
LOG = prose(2_000, "the log")
POLITE, GREEDY = "authorization: Bearer polite", "authorization: Bearer greedy"


def reading(content: str) -> list[Fields]:
    """A conversation in which a tool has printed this."""
    return [user("Read the log"), calls("1"), result("1", content)]


def archive_in(folder: Path, **more: Any) -> dict[str, Any]:
    """The section that names an archive."""
    return {"enabled": True, "dir": str(folder / "archive"), **more}


def id_in(asked: Asked) -> str:
    """Return the id that a prompt names."""
    name = asked.upstream.decode().partition("offload id: ")[2][:32]
    assert len(name) == 32
    return name


async def fetched(talk: Talk, asked: Asked, *headers: str) -> Any:
    """Ask for the text whose id a prompt names."""
    return await get(talk.line, f"/v1/offload/{id_in(asked)}", *headers)


async def test_d12_a_text_that_vanished_is_told_like_one_that_never_was(tmp_path: Path) -> None:
    store = store_in_file(tmp_path)
    async with talking(SummaryModel(), window=64_000, tools=TOOLS, store=store) as talk:
        asked = await talk.ask(reading(LOG))
        found = await fetched(talk, asked)
        with closing(sqlite3.connect(place_in(tmp_path))) as other:
            other.execute("DELETE FROM rows WHERE kind = 'offload'")
            other.commit()
        gone = await fetched(talk, asked)
        never = await get(talk.line, f"/v1/offload/{'0' * 32}")

    assert (found.status, found.body) == (200, LOG.encode())
    assert (gone.status, gone.error["code"]) == (404, "not_found")
    assert gone.body == never.body


async def test_d12_a_text_beyond_the_quota_stays_in_the_prompt(tmp_path: Path) -> None:
    store = store_in_file(tmp_path, max_bytes=32_768)
    async with talking(SummaryModel(), window=64_000, tools=TOOLS, store=store) as talk:
        large = await talk.ask(reading(prose(9_000, "too much")))
        figures = talk.proxy.services.metrics.render().decode()

    assert label(large) == "none"
    assert large.upstream == large.body
    assert 'chat_proxy_offloads_total{result="refused"} 1.0' in figures


async def test_d12_an_archive_that_takes_no_more_leaves_a_text_whole_if_its_file_is_named(
    tmp_path: Path,
) -> None:
    """An agent that reads the file would find none; the original stays until it is written."""
    archive = archive_in(tmp_path, max_bytes=1_000, mention_paths=True)
    async with talking(SummaryModel(), window=64_000, tools=TOOLS, archive=archive) as talk:
        asked = await talk.ask(reading(LOG))

    assert label(asked) == "none"
    assert asked.upstream == asked.body


async def test_d12_a_file_is_whole_and_its_owner_s_alone(tmp_path: Path) -> None:
    archive = archive_in(tmp_path, mention_paths=True)
    async with talking(SummaryModel(), window=64_000, tools=TOOLS, archive=archive) as talk:
        asked = await talk.ask(reading(LOG))
        folder = tmp_path / "archive" / "tool_result"
        (file,) = folder.glob("*.txt")

    assert str(file) in asked.upstream.decode()
    assert file.read_text() == LOG
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not list(folder.glob("*.draft"))


async def test_d12_two_writers_of_the_same_texts_leave_each_of_them_once(tmp_path: Path) -> None:
    archives = [Archive(tmp_path, 5, wait_seconds=30) for _ in range(2)]

    kept = await asyncio.gather(
        *(archive.keep_result(TENANT, name, name * 500) for name in NAMES for archive in archives)
    )
    for archive in archives:
        await archive.close()

    assert None not in kept
    files = sorted((tmp_path / "tool_result").glob("*.txt"))
    assert [file.stem for file in files] == NAMES
    assert all(file.read_text() == file.stem * 500 for file in files)


async def test_d12_what_the_retention_took_is_written_again_when_it_is_used(tmp_path: Path) -> None:
    archive = archive_in(tmp_path)
    folder = tmp_path / "archive" / "tool_result"
    for _ in range(2):
        async with talking(SummaryModel(), window=64_000, tools=TOOLS, archive=archive) as talk:
            asked = await talk.ask(reading(LOG))
            await eventually(lambda: list(folder.glob("*.txt")))
            found = await fetched(talk, asked)
        (file,) = folder.glob("*.txt")
        assert (file.read_text(), found.body) == (LOG, LOG.encode())
        file.unlink()


async def test_d15_a_tenant_that_keeps_too_much_loses_its_own_and_nobody_else_s(
    tmp_path: Path,
) -> None:
    """In the store and in the archive, whose smaller limit is for one tenant."""
    limit = 10 * len(LOG)
    sections: dict[str, Any] = {
        "store": store_in_file(tmp_path, tenant_max_bytes=limit),
        "archive": archive_in(tmp_path, tenant_max_bytes=limit),
        "tools": TOOLS,
    }
    async with talking(SummaryModel(), window=64_000, **sections) as talk:
        polite = await talk.ask(reading(LOG), POLITE)
        greedy = [await talk.ask(reading(f"{n} {LOG}"), GREEDY) for n in range(40)]
        answers = {
            "polite": await fetched(talk, polite, POLITE),
            "oldest": await fetched(talk, greedy[0], GREEDY),
            "newest": await fetched(talk, greedy[-1], GREEDY),
        }
        folder = tmp_path / "archive" / "tool_result"
        await eventually(lambda: list(folder.glob(f"{id_in(greedy[-1])}.txt")))

    assert {name: it.status for name, it in answers.items()} == {
        "polite": 200,
        "oldest": 404,
        "newest": 200,
    }
    assert "offload id: " in greedy[-1].upstream.decode()
    names = {file.stem for file in folder.glob("*.txt")}
    assert {id_in(polite), id_in(greedy[-1])} <= names
    assert id_in(greedy[0]) not in names
    assert sum(file.stat().st_size for file in folder.glob("*.txt")) <= limit + len(LOG)
