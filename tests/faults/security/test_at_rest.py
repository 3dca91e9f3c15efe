"""F21: what lies on the disk is the owner's alone, and goes when it is told to."""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.cli.purge import purge
from chat_proxy.config.settings import Settings
from chat_proxy.store.sqlite.connection import connect
from tests.faults.security.tenants import ALICE, BOB, bearer, tenant_of
from tests.journeys.summaries.talking import SYSTEM, WINDOW, turns
from tests.support.fake_model import fake_model
from tests.support.live import http_client, running_proxy
from tests.support.live import settings as settings_of
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields, says, user

CHAT = "/v1/chat/completions"
WORDS = {ALICE: "the walrus of the north", BOB: "the heron of the south"}


def sections(folder: Path) -> dict[str, Any]:
    return {
        "store": {"url": f"sqlite:///{folder}/chat-proxy.db"},
        "archive": {"enabled": True, "dir": folder, "retention_days": 5},
        "budget": {"context_window": WINDOW, "prepare": 1},
        "summary": {"wait": "trigger"},
        "tools": {"max_bytes": 2_000},
    }


def placed(folder: Path) -> Settings:
    return settings_of(**sections(folder))


def chat_about(words: str) -> list[Fields]:
    """A conversation that is summarised, with a result that is offloaded."""
    call = {"id": "1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return [
        SYSTEM,
        user(f"Remember {words}."),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": f"{words}\n" * 400},
        says("I see."),
        *turns(14),
        user("And now?"),
    ]


async def _fill(folder: Path) -> None:
    brain = SummaryModel(window=WINDOW)
    async with fake_model(brain) as model, running_proxy(model.url, **sections(folder)) as proxy:
        for key, words in WORDS.items():
            async with http_client(proxy, headers=bearer(key)) as client:
                body = {"model": "fake", "messages": chat_about(words)}
                answer = await client.post(CHAT, content=json.dumps(body).encode())
            assert answer.headers["x-chat-proxy-compaction"] == "built"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what two tenants left behind."""
    chosen = tmp_path / "data"
    asyncio.run(_fill(chosen))
    return chosen


def files_with(folder: Path, word: str) -> list[str]:
    """The files in which a word is, whatever their form."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.name for path in files if word.encode() in path.read_bytes())


def test_f21_files_and_folders_are_the_owner_s_alone(folder: Path) -> None:
    """F21: 0600 and 0700, the database, its secret and every file of the archive."""
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}

    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert len(modes) >= 6


def test_f21_a_tenant_that_is_purged_leaves_no_byte(folder: Path) -> None:
    """F21: summaries, originals and offloaded texts, in free pages and in the log of writes too."""
    assert files_with(folder, WORDS[ALICE])
    others = files_with(folder, WORDS[BOB])

    assert purge(placed(folder), None, tenant_of(ALICE), everything=False) == 0

    assert files_with(folder, WORDS[ALICE]) == []
    assert files_with(folder, tenant_of(ALICE)) == []
    assert len(files_with(folder, WORDS[BOB])) == len(others) > 0


def test_f21_what_is_too_old_goes_and_what_is_young_stays(folder: Path) -> None:
    """F21: retention by age."""
    assert purge(placed(folder), 1, None, everything=False) == 0
    assert files_with(folder, WORDS[ALICE])

    assert purge(placed(folder), 0, None, everything=False) == 0

    assert files_with(folder, WORDS[ALICE]) == files_with(folder, WORDS[BOB]) == []


def test_f21_what_is_deleted_is_overwritten(folder: Path) -> None:
    """F21: on every connection of the store, also where rows only expire."""
    database = connect(folder / "chat-proxy.db", 5)

    assert database.execute("PRAGMA secure_delete").fetchone() == (1,)
    database.execute("DELETE FROM rows")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()

    assert not {"chat-proxy.db", "chat-proxy.db-wal"} & set(files_with(folder, WORDS[ALICE]))
