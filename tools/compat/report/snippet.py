"""Cuts a client's configuration out of its driver, so that the page shows what really ran."""

import re
from pathlib import Path

BEGIN = re.compile(r"^(#|//) configuration$")
END = re.compile(r"^(#|//) end of configuration$")
LANGUAGES = {".py": "python", ".mjs": "js"}
ROOT = "http://127.0.0.1:8100"
VALUES = {"PROXY": f"{ROOT}/v1", "ROOT": ROOT, "KEY": "your-key", "MODEL": "your-model"}
TASK = "What to do"


class NoConfiguration(Exception):
    """A driver does not mark its configuration."""


def snippet_of(driver: Path) -> tuple[str, str]:
    """Return a driver's configuration and the language it is written in."""
    lines = driver.read_text(encoding="utf-8").splitlines()
    begins = [index for index, line in enumerate(lines) if BEGIN.match(line)]
    ends = [index for index, line in enumerate(lines) if END.match(line)]
    if len(begins) != 1 or len(ends) != 1:
        raise NoConfiguration(driver.name)
    marked = lines[begins[0] + 1 : ends[0]]
    if marked[0].startswith("RUN = "):
        return "sh", in_shell("\n".join(marked[1:-1]))
    return LANGUAGES[driver.suffix], in_code("\n".join(marked))


def in_shell(lines: str) -> str:
    """Return a shell's lines with values in them."""
    for name, value in {**VALUES, "TASK": TASK}.items():
        lines = lines.replace(f"${name}", value)
    return lines


def in_code(lines: str) -> str:
    """Return a program's lines with values in them."""
    for name, value in VALUES.items():
        lines = re.sub(rf"\b{name}\b", f'"{value}"', lines)
    return lines
