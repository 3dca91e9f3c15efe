"""What was folded and cut is not lost: the store, and the archive's files, have it whole."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.summaries.talking import WINDOW, Talk, long_chat, talking, turns
from tests.journeys.trimming.growing import Asked
from tests.support.conversations import get
from tests.support.read_dialog import read_dialog
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields, calls, result, user
from tests.unit.store.places import place_in, store_in_file

pytestmark = pytest.mark.anyio

_ID = re.compile(r"offload id ([0-9a-f]{32})(?=[;\]])")
_SOURCES = re.compile(r"^\[The original messages: (.+)\]$", re.MULTILINE)
_LINES = re.compile(r"([^;]+), lines (\d+)-(\d+) \(read them from the end backwards\)")


def archive(folder: Path, **more: Any) -> dict[str, Any]:
    return {"enabled": True, "dir": str(folder), **more}


def archived(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "dialog").glob("*.jsonl"))
    assert all((file.stat().st_mode & 0o077) == 0 for file in files)
    return [json.loads(line) for file in files for line in read(file).splitlines()]


def read(file: Path | str) -> str:
    return Path(file).read_text()


def files_with(folder: Path, text: str) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if text.encode() in path.read_bytes()]


def folded(asked: Asked) -> str:
    return str(asked.messages[1]["content"])


def sources(asked: Asked) -> str:
    """Return what a prompt says about the places of the original messages."""
    (found,) = _SOURCES.findall(folded(asked))
    return str(found)


async def originals(talk: Talk, asked: Asked) -> list[Fields]:
    """Fetch all messages that a prompt says were kept, place by place."""
    found: list[Fields] = []
    for name in _ID.findall(folded(asked)):
        answer = await get(talk.line, f"/v1/offload/{name}")
        assert answer.status == 200
        found += map(json.loads, answer.body.decode().splitlines())
    return found


async def test_folded_messages_can_be_fetched_by_the_id_that_the_prompt_names() -> None:
    given = long_chat()
    async with talking(SummaryModel(window=WINDOW)) as talk:
        asked = await talk.ask(given)
        kept = await originals(talk, asked)

    assert kept == given[: len(kept)]
    assert len(kept) > 10


async def test_a_prompt_names_the_originals_of_all_spans_that_were_ever_folded() -> None:
    """DESIGN rule 12: what was folded first is found as well as what was folded last."""
    given = long_chat()
    spans = []
    async with talking(SummaryModel(window=WINDOW)) as talk:
        for first in (50, 100, 150):
            asked = await talk.ask(given)
            kept = await originals(talk, asked)
            spans.append(sources(asked).split("; "))
            assert kept == given[: len(kept)]
            shown = [message for message in asked.messages[3:] if message in given]
            assert kept + shown == given
            given = [*given, *turns(14, first=first)[1:], user("And then?")]

    assert [len(names) for names in spans] == [1, 2, 3]
    assert spans[2][:2] == spans[1]
    assert len(set(spans[2])) == 3


async def test_the_archive_gives_back_the_clients_own_messages_span_by_span(
    tmp_path: Path,
) -> None:
    given = long_chat()
    async with talking(SummaryModel(window=WINDOW), archive=archive(tmp_path)) as talk:
        await talk.ask(given)
        given = [*given, *turns(14, first=50)[1:], user("And then?")]
        asked = await talk.ask(given)

    lines = archived(tmp_path)
    last = lines[-1]
    again = read_dialog(tmp_path, last["tenant"], last["chain"])
    assert len({line["chain"] for line in lines}) == 2
    assert again == given[: len(again)]
    assert again[-1] not in asked.messages


async def test_a_prompt_names_the_file_and_lines_for_agents_that_can_read_them(
    tmp_path: Path,
) -> None:
    given = long_chat()
    sections: dict[str, Any] = {"archive": archive(tmp_path, mention_paths=True)}
    async with talking(SummaryModel(window=WINDOW), **sections) as talk:
        asked = await talk.ask(given)
        later = await talk.ask([*given, *turns(1, first=90)[1:], user("Go on.")])

    found = _LINES.fullmatch(sources(asked))
    assert found
    lines = read(found[1]).splitlines()[int(found[2]) - 1 : int(found[3])]
    assert [json.loads(line)["message"] for line in lines] == given[: len(lines)]
    assert folded(later) == folded(asked)


async def test_a_cut_result_names_its_file_and_the_line_to_go_on_from(tmp_path: Path) -> None:
    text = "".join(f"line {number} of the log\n" for number in range(1, 20_000))
    given: list[Fields] = [user("Read it."), calls("1"), result("1", text), user("And?")]
    sections: dict[str, Any] = {"archive": archive(tmp_path, mention_paths=True)}
    async with talking(SummaryModel(window=1_000_000), window=1_000_000, **sections) as talk:
        asked = await talk.ask(given)

    content = asked.messages[2]["content"]
    found = re.search(r"\[full text: (.+), go on from line (\d+)\]", content)
    assert found
    assert read(found[1]) == text
    line = read(found[1]).splitlines()[int(found[2]) - 1]
    assert line not in content.partition("[Tool output truncated")[0].splitlines()
    assert f"line {int(found[2]) - 1} of the log\n[Tool output truncated" in content


async def test_without_files_nothing_is_written(tmp_path: Path) -> None:
    sections: dict[str, Any] = {"archive": {"files": False, "dir": str(tmp_path)}}
    async with talking(SummaryModel(window=WINDOW), **sections) as talk:
        await talk.ask(long_chat())

    assert archived(tmp_path) == []


async def test_without_originals_none_are_kept_anywhere_and_no_place_is_named(
    tmp_path: Path,
) -> None:
    """Issue 22, 11: neither the offload route nor the SQLite file has any."""
    canary = "canary of the middle of the log"
    log = "".join(f"line {number} of the log\n" for number in range(1, 4_000))
    log = log.replace("line 2000 of the log", canary)
    base64 = "data:image/png;base64," + "iVBORw0KGgo" * 400
    read_it = [calls("1"), result("1", log), calls("2"), result("2", base64), user("And?")]
    sections: dict[str, Any] = {"store": store_in_file(tmp_path), "tools": {"max_bytes": 3_000}}
    async with talking(SummaryModel(window=WINDOW), **sections) as talk:
        kept = await talk.ask([user("Read it."), *read_it])
    name = kept.upstream.decode().partition("offload id: ")[2][:32]
    place_in(tmp_path).unlink()
    sections["archive"] = {"enabled": False, "dir": str(tmp_path / "files")}

    async with talking(SummaryModel(window=WINDOW), **sections) as talk:
        asked = [await talk.ask([user("Read it."), *read_it]), await talk.ask(long_chat())]
        gone = await get(talk.line, f"/v1/offload/{name}")
    with closing(sqlite3.connect(place_in(tmp_path))) as file:
        kinds = {kind for (kind,) in file.execute("SELECT DISTINCT kind FROM rows")}

    assert [it.headers["x-chat-proxy-compaction"] for it in asked] == ["trimmed", "built"]
    assert "[Tool output truncated: omitted" in asked[0].upstream.decode()
    for it in asked:
        prompt = it.upstream.decode()
        assert not re.search(r"offload id|full text|original messages", prompt)
    assert gone.status == 404
    assert "checkpoint" in kinds
    assert "offload" not in kinds
    assert files_with(tmp_path, canary) == []
    answer = json.dumps(long_chat()[2]["content"])[1:-1]
    assert files_with(tmp_path, answer) == []
    assert archived(tmp_path / "files") == []
