"""`chat-proxy compact FILE`: what it prints where, and how it ends."""

import asyncio
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.cli import main as cli
from chat_proxy.cli.terminal import progress
from chat_proxy.proxy.manual import compact as manual
from tests.journeys.manual.hands import WISH, model, small_chat
from tests.journeys.summaries.talking import body_of
from tests.support.command import Ended, run_command
from tests.support.fake_model import fake_model
from tests.support.summary_model import SummaryModel, after, failing, good
from tests.unit.chat.shapes import user

pytestmark = pytest.mark.anyio

DOWN = "http://127.0.0.1:1/v1"


# With a field that nobody here knows.
BODY = body_of([*small_chat(), user("And now?")], seed=7)


@pytest.fixture
def body(tmp_path: Path) -> Path:
    """A conversation in a file."""
    path = tmp_path / "body.json"
    path.write_bytes(BODY)
    return path


async def compact(brain: SummaryModel, *arguments: str, typed: bytes = b"") -> Ended:
    """Run the command in front of a model."""
    async with fake_model(brain) as model_server:
        return await run_command(
            "compact",
            *arguments,
            typed=typed,
            UPSTREAM_BASE_URL=model_server.url,
            STORE_URL="memory:",
            BUDGET_CONTEXT_WINDOW="8000",
        )


async def test_it_prints_the_compacted_body_and_its_figures_beside(body: Path) -> None:
    ended = await compact(model(), str(body))

    printed = json.loads(ended.out)
    assert ended.code == 0
    assert printed["seed"] == 7
    assert printed["messages"][-1] == user("And now?")
    assert len(printed["messages"]) == 4
    (line,) = ended.err.splitlines()
    assert line.startswith("chat-proxy: 16 messages compacted, ")
    assert " -> " in line


async def test_as_json_the_summary_stands_beside_the_messages(body: Path) -> None:
    brain = model()

    ended = await compact(brain, str(body), "--json", "--keep", "2", "--instruction", WISH)

    printed = json.loads(ended.out)
    assert printed["summary"].startswith("## Goal")
    assert printed["checkpoint"] == {"covered": 15}
    assert WISH in brain.summaries[0].texts[-1]


async def test_a_dash_reads_the_standard_input() -> None:
    ended = await compact(model(), "-", typed=BODY)

    assert len(json.loads(ended.out)["messages"]) == 4


async def test_a_single_turn_is_printed_as_it_is_with_a_note() -> None:
    given = body_of([user("Hi")])

    ended = await compact(model(), "-", typed=given)

    assert ended.code == 0
    assert ended.out.encode() == given + b"\n"
    assert manual.NOTHING_TO_FOLD in ended.err


async def test_a_failing_model_ends_it_with_1_and_prints_nothing(body: Path) -> None:
    ended = await compact(model(failing(500)), str(body))

    assert (ended.code, ended.out) == (1, "")
    assert "not compacted: the summary model cannot be reached" in ended.err


@pytest.mark.parametrize(
    ("text", "arguments", "complaint"),
    [
        ("{", (), "not valid JSON"),
        ("{}", (), "model must be the name of a model"),
        ('{"model": "fake", "messages": 7}', (), "messages must be a list of objects"),
        (None, (), "No such file"),
        ("{}", ("--keep", "0"), "--keep 0: must be at least 1"),
    ],
)
def test_what_cannot_be_read_ends_it_with_2(
    text: str | None,
    arguments: tuple[str, ...],
    complaint: str,
    tmp_path: Path,
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "body.json"
    if text is not None:
        path.write_text(text)

    assert run(str(path), *arguments) == 2
    assert complaint in capsys.readouterr().err


def test_a_store_that_cannot_be_opened_is_named(
    body: Path,
    run: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    broken = tmp_path / "folder.db"
    broken.mkdir()
    monkeypatch.setenv("CHAT_PROXY_STORE_URL", f"sqlite:///{broken}")
    monkeypatch.setenv("CHAT_PROXY_STORE_REQUIRED", "true")

    assert run(str(body)) == 2
    assert "CHAT_PROXY_STORE_URL" in capsys.readouterr().err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Return a function that runs the command in this process, without an upstream."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CHAT_PROXY_UPSTREAM_BASE_URL", DOWN)

    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            cli.main(["compact", *arguments])
        return int(str(ended.value.code))

    return run


class Terminal(io.StringIO):
    """A stream that looks like a terminal."""

    def isatty(self) -> bool:
        return True


async def test_on_a_terminal_it_shows_its_progress_and_wipes_it_away(
    body: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same code in a thread of this process, where its streams can be exchanged."""
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.05)
    monkeypatch.setattr(progress, "NEXT_SECONDS", 0.05)
    terminal, printed = Terminal(), io.BytesIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed))
    async with fake_model(model(after(0.3, good))) as upstream:
        variables: dict[str, Any] = {
            "UPSTREAM_BASE_URL": upstream.url,
            "STORE_URL": "memory:",
            "BUDGET_CONTEXT_WINDOW": "8000",
            "REGISTRY_FILE": "/nonexistent/registry.json",
        }
        for name, value in variables.items():
            monkeypatch.setenv(f"CHAT_PROXY_{name}", value)
        with pytest.raises(SystemExit) as ended:
            await asyncio.to_thread(cli.main, ["compact", str(body)])

    shown = terminal.getvalue()
    assert ended.value.code == 0
    assert shown.count("compacting 18 messages") > 2
    assert f"s{progress.CLEAR_LINE}chat-proxy: 16 messages compacted" in shown
    assert len(json.loads(printed.getvalue())["messages"]) == 4
