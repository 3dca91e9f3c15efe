"""README's beginning: its commands exist, and its figures are those of this checkout."""

import re
import shlex
from pathlib import Path

import pytest

from chat_proxy import __version__
from chat_proxy.cli.main import parser

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICK_START = README.partition("## Quick start")[2].partition("\n## ")[0]


def commands() -> list[str]:
    """Return the arguments of every `chat-proxy` that somebody may type."""
    lines = QUICK_START.replace("\\\n", " ").splitlines()
    typed = [line.partition("  #")[0] for line in lines if line.startswith("$ ")]
    typed += re.findall(r"`(chat-proxy [a-z][^`>]*)", QUICK_START)
    calls = (
        re.search(r"(?:^\$ |^| )chat-proxy ((?:demo|serve|settings|check).*)", it) for it in typed
    )
    return sorted({call[1].strip() for call in calls if call})


def test_it_begins_with_a_clone() -> None:
    first = re.findall(r"^\$ (.*)", QUICK_START, re.MULTILINE)[0]

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

    (told,) = re.findall(r"installs the (\d+) packages", QUICK_START)

    assert int(told) == len(re.findall(r"^\w.*==", locked, re.MULTILINE))


def test_the_wheel_has_the_name_of_this_version() -> None:
    assert set(re.findall(r"chat_proxy-([\d.]+)-py3", QUICK_START)) == {__version__}
    assert f"chat-proxy {__version__} at " in QUICK_START
