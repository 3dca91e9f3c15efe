"""`chat-proxy settings`: list every setting from the code."""

import json
import sys
import textwrap
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict

from chat_proxy.config.documented import DocumentedSection, documented_sections

WIDTH = 80
HEAD = """\
Each setting is an environment variable or a line of .env; the environment takes
precedence. `chat-proxy serve --help` lists flags for the usual ones, and
`chat-proxy check-config` prints what is set. A file to start from:
`chat-proxy settings --env > .env`.
"""
ENV_HEAD = """\
# Settings of chat-proxy, with their defaults: remove the # before those that
# you change.
"""


def run(options: Namespace) -> int:
    """Run the command."""
    sections = list(documented_sections())
    if options.json:
        sys.stdout.write(as_json(sections))
    else:
        lines = as_env(sections) if options.env else as_text(sections)
        sys.stdout.writelines(line + "\n" for line in lines)
    return 0


def as_text(sections: list[DocumentedSection]) -> Iterator[str]:
    """Yield the settings for people, each with its meaning below it."""
    yield HEAD
    for section in sections:
        yield from wrapped(f"{section.name or 'general'}: {section.meaning}", "")
        yield ""
        for setting in section.settings:
            yield f"  {setting.name}={setting.default}"
            yield from wrapped(setting.meaning, " " * 6)
        yield ""


def as_env(sections: list[DocumentedSection]) -> Iterator[str]:
    """Yield the lines of an .env file in which every setting is commented out."""
    yield ENV_HEAD
    for section in sections:
        yield from wrapped(f"{section.name or 'general'}: {section.meaning}", "## ")
        yield ""
        for setting in section.settings:
            yield from wrapped(setting.meaning, "# ")
            yield f"#{setting.name}={setting.default}\n"


def wrapped(text: str, indent: str) -> list[str]:
    """Return a text as lines that fit a terminal; names are never broken."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def as_json(sections: list[DocumentedSection]) -> str:
    """Return a list with an object for each setting."""
    settings = (
        {**asdict(setting), "section": section.name}
        for section in sections
        for setting in section.settings
    )
    return json.dumps(list(settings), indent=2, ensure_ascii=False) + "\n"
