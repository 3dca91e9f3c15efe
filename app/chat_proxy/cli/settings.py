"""`chat-proxy settings`: list every setting from the code."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict

from chat_proxy.config.documented import DocumentedSection, documented_sections

HEAD = """\
Each setting is an environment variable or a line of .env; the environment takes precedence.
`chat-proxy serve --help` lists flags for the usual ones, `chat-proxy check-config` what is set.
`chat-proxy settings --env > .env` writes a file to start from.
"""
ENV_HEAD = (
    "# Settings of chat-proxy, with their defaults: remove the # before those that you change.\n"
)


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
        yield f"{section.name or 'general'}: {section.meaning}\n"
        for setting in section.settings:
            yield f"  {setting.name}={setting.default}"
            yield f"      {setting.meaning}"
        yield ""


def as_env(sections: list[DocumentedSection]) -> Iterator[str]:
    """Yield the lines of an .env file in which every setting is commented out."""
    yield ENV_HEAD
    for section in sections:
        yield f"## {section.name or 'general'}: {section.meaning}\n"
        for setting in section.settings:
            yield f"# {setting.meaning}"
            yield f"#{setting.name}={setting.default}\n"


def as_json(sections: list[DocumentedSection]) -> str:
    """Return a list with an object for each setting."""
    settings = (
        {**asdict(setting), "section": section.name}
        for section in sections
        for setting in section.settings
    )
    return json.dumps(list(settings), indent=2, ensure_ascii=False) + "\n"
