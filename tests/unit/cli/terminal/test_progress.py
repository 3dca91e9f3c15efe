"""The sign of life from commands that take their time."""

import io
import json
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from chat_proxy.cli.explain import explain_file
from chat_proxy.cli.purge import purge
from chat_proxy.cli.terminal import progress as module
from chat_proxy.cli.terminal.progress import CLEAR_LINE, megabytes, progress
from tests.support.live import settings


class Terminal(io.StringIO):
    """A stream that looks like a terminal."""

    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put a terminal in the place of stderr; a fixture's would be replaced by pytest's own."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Show what takes longer than a moment."""
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(module, "NEXT_SECONDS", 0.02)


@pytest.mark.usefixtures("_impatient")
def test_long_work_shows_a_line_again_and_again_and_wipes_it_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = on_terminal(monkeypatch)
    with progress("counting 12 MB"):
        time.sleep(0.3)

    first, *more, last = terminal.getvalue().split(CLEAR_LINE)
    assert (first, last) == ("", "")
    assert len(more) > 1
    assert set(more) == {"chat-proxy: counting 12 MB, 0 s"}


def test_short_work_shows_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = on_terminal(monkeypatch)
    with progress("counting"):
        pass

    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("_impatient")
def test_nothing_shows_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("counting"):
        time.sleep(0.1)

    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("_impatient")
def test_a_failure_wipes_the_line_away_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = on_terminal(monkeypatch)
    with suppress(ZeroDivisionError), progress("counting"):
        time.sleep(0.2)
        raise ZeroDivisionError

    assert terminal.getvalue().endswith(CLEAR_LINE)


@pytest.mark.usefixtures("_impatient")
def test_explain_says_how_much_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    words = " ".join(f"{number:x}" for number in range(500_000))
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"model": "m", "messages": [{"role": "user", "content": words}]}))

    assert explain_file(settings(), {}, str(body), as_json=True) == 0

    assert f"{CLEAR_LINE}chat-proxy: counting {megabytes(len(words))}, " in terminal.getvalue()


def test_a_quick_purge_says_nothing_but_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = on_terminal(monkeypatch)
    assert purge(settings(archive={"dir": tmp_path}), None, None, everything=True) == 0

    assert terminal.getvalue() == ""


def test_sizes_are_told_in_megabytes() -> None:
    assert [megabytes(size) for size in (1_000, 1_234_567, 12_345_678)] == [
        "0.0 MB", "1.2 MB", "12 MB"
    ]  # fmt: skip
