"""`chat-proxy export`: what it lists and prints of an archive, without a running proxy."""

import asyncio
import json
from pathlib import Path

import pytest

from chat_proxy.cli.main import main
from chat_proxy.store.archive.archive import Archive
from chat_proxy.store.archive.files import DIALOG

TENANT, OTHER = "a" * 64, "b" * 64
FIRST, SECOND, FOREIGN = "1" * 64, "2" * 64, "3" * 64


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive with one conversation in two spans, and another tenant's."""
    monkeypatch.setenv("CHAT_PROXY_ARCHIVE_DIR", str(tmp_path))
    asyncio.run(_fill(tmp_path))
    return tmp_path


async def _fill(folder: Path) -> None:
    archive = Archive(folder, 5)
    first = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    assert await archive.keep_dialog(TENANT, FIRST, first, start=0, after=None)
    second = [{"role": "user", "content": "three"}]
    assert await archive.keep_dialog(TENANT, SECOND, second, start=2, after=FIRST)
    assert await archive.keep_dialog(OTHER, FOREIGN, [{"role": "user", "content": "mine"}])
    await archive.close()


def exit_code(arguments: list[str]) -> int | str | None:
    """Run the command and return how it ends."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


def test_conversations_are_listed_by_their_newest_span(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["export"]) == 0

    said = capsys.readouterr().out
    assert SECOND[:12] in said
    assert "3 messages" in said
    assert FIRST[:12] not in said


def test_a_conversation_is_printed_with_all_that_it_continues(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(["export", SECOND[:12]]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["content"] for line in lines] == ["one", "two", "three"]


def test_it_is_printed_for_people_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["export", SECOND[:12], "--format", "markdown"]) == 0

    said = capsys.readouterr().out
    assert "## 0 · user\n\none" in said
    assert "three" in said


@pytest.mark.parametrize("damage", [b'{"tenant": "a', b"3\n", b"{}\n", b"[]\n", b"\xff\n"])
def test_damaged_lines_are_left_out(
    folder: Path, damage: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (day,) = (folder / DIALOG).glob("*.jsonl")
    with day.open("ab") as lines:
        lines.write(damage)

    assert exit_code(["export", SECOND[:12]]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_an_unknown_name_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["export", "nothing"]) != 0

    assert "no conversation with a name" in capsys.readouterr().err
