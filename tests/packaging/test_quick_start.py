"""README's quick start and docs/install.md: their commands exist, their figures are true."""

import re
import shlex
from pathlib import Path

import pytest

from chat_proxy import __version__
from chat_proxy.cli.main import parser
from chat_proxy.cli.terminal.flags import SETTING_FLAGS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICK_START = README.partition("## Quick start")[2].partition("\n## ")[0]
INSTALL = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
README_BYTES = 10_240


def commands() -> list[str]:
    """Return the arguments of every `chat-proxy` that somebody may type."""
    text = README + INSTALL
    lines = text.replace("\\\n", " ").splitlines()
    typed = [line.partition("  #")[0] for line in lines if line.startswith("$ ")]
    typed += re.findall(r"`((?:uvx --from \S+ )?chat-proxy [a-z][^`>]*)", text)
    calls = (
        re.search(r"(?:^\$ |^| )chat-proxy ((?:demo|serve|settings|check|explain|purge).*)", it)
        for it in typed
    )
    return sorted({call[1].strip() for call in calls if call})


def test_readme_is_read_in_ten_minutes() -> None:
    assert len(README.encode()) <= README_BYTES


@pytest.mark.parametrize("text", [QUICK_START, INSTALL], ids=["README", "install.md"])
def test_it_begins_with_a_clone(text: str) -> None:
    first = re.findall(r"^\$ (.*)", text, re.MULTILINE)[0]

    assert first.startswith("git clone ")


def test_there_are_three_ways() -> None:
    assert re.findall(r"^\*\*(\d)\. With ([^*]+)\*\*", QUICK_START, re.MULTILINE) == [
        ("1", "uv, pipx or pip"),
        ("2", "Docker"),
        ("3", "Docker Compose"),
    ]


@pytest.mark.parametrize("command", commands())
def test_a_command_is_one_that_can_be_typed(command: str) -> None:
    arguments = shlex.split(command)

    if "--help" not in arguments:
        parser().parse_args(arguments)


def test_commands_are_found() -> None:
    assert {"demo", "serve --upstream http://127.0.0.1:8000/v1"} <= set(commands())


def test_the_number_of_packages_is_that_of_the_lock() -> None:
    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8")

    told = re.findall(r"installs the (\d+) packages", QUICK_START + INSTALL)

    assert {int(it) for it in told} == {len(re.findall(r"^\w.*==", locked, re.MULTILINE))}
    assert len(told) == 2


def test_the_wheel_has_the_name_of_this_version() -> None:
    assert set(re.findall(r"chat_proxy-([\d.]+)-py3", INSTALL)) == {__version__}
    assert f"chat-proxy {__version__} at " in INSTALL


def test_the_flags_of_serve_are_told() -> None:
    (sentence,) = re.findall(r"is a flag\nof `serve`, too: (.*?)\. ", INSTALL, re.DOTALL)

    assert set(re.findall(r"`(--[a-z-]+)`", sentence)) == {
        "--env-file",
        *(flag.name for flag in SETTING_FLAGS),
    }
