"""Flags that set a setting for one run: a flag beats its variable, which beats `.env`."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import NamedTuple

from chat_proxy.errors import BadConfiguration

ENV_FILE = Path(".env")
STANDARD_INPUT = "-"


class SettingFlag(NamedTuple):
    """A flag and the variable whose setting it sets."""

    name: str
    variable: str
    metavar: str
    meaning: str


API_KEY = SettingFlag(
    "--api-key",
    "CHAT_PROXY_UPSTREAM_API_KEY",
    "KEY",
    "key for the model server; - reads it from stdin, because others can see a command's arguments",
)
SETTING_FLAGS = (
    SettingFlag(
        "--upstream", "CHAT_PROXY_UPSTREAM_BASE_URL", "URL", "base URL of the model server"
    ),
    API_KEY,
    SettingFlag("--host", "CHAT_PROXY_SERVER_HOST", "ADDRESS", "address to listen on"),
    SettingFlag("--port", "CHAT_PROXY_SERVER_PORT", "PORT", "port to listen on; 0: a free one"),
    SettingFlag("--workers", "CHAT_PROXY_SERVER_WORKERS", "N", "number of processes"),
    SettingFlag(
        "--window", "CHAT_PROXY_BUDGET_CONTEXT_WINDOW", "TOKENS", "context window of all models"
    ),
    SettingFlag("--mode", "CHAT_PROXY_MODE", "on|observe|off", "compact, only report, or neither"),
    SettingFlag(
        "--store", "CHAT_PROXY_STORE_URL", "URL", "sqlite:///path, redis://host:port/db or memory:"
    ),
)


def add_setting_flags(command: ArgumentParser) -> None:
    """Add a flag for each setting that almost everybody sets, and `--env-file`."""
    add_env_file(command)
    for flag in SETTING_FLAGS:
        described = f"{flag.meaning} ({flag.variable})"
        command.add_argument(flag.name, metavar=flag.metavar, dest=flag.variable, help=described)


def add_env_file(command: ArgumentParser) -> None:
    """Add `--env-file` alone."""
    command.add_argument(
        "--env-file", metavar="FILE", help="read settings from this file instead of .env"
    )


def sources_of(options: Namespace) -> tuple[Path, dict[str, str]]:
    """Return the file and the variables that the flags name.

    Raise BadConfiguration if a named file is missing, or a key is missing on the standard input.
    """
    given = {flag.variable: getattr(options, flag.variable, None) for flag in SETTING_FLAGS}
    variables = {name: value for name, value in given.items() if value is not None}
    if variables.get(API_KEY.variable) == STANDARD_INPUT:
        variables[API_KEY.variable] = _key_from_stdin()
    return _file_of(options.env_file), variables


def _file_of(name: str | None) -> Path:
    if name is None:
        return ENV_FILE
    if not Path(name).is_file():
        raise BadConfiguration(f"--env-file {name}: there is no such file")
    return Path(name)


def _key_from_stdin() -> str:
    key = sys.stdin.readline().strip()
    if not key:
        raise BadConfiguration(f"{API_KEY.name} -: there is no key on the standard input")
    return key
