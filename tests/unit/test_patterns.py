"""Patterns mean the same for every Python that the project supports."""

import re
from pathlib import Path

import chat_proxy

POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{{1,2}\d[\d,]*\}{1,2})\+(?![ =])")
"""Repeats of groups that give nothing back."""


def test_no_group_is_repeated_possessively() -> None:
    """Python 3.11.2, which Debian 12 has, loses its place there: it skips what did not match.

    An atomic group around an ordinary repeat means the same and works.
    """
    assert POSSESSIVE_GROUP.search(r"(?:ab)*+")
    assert POSSESSIVE_GROUP.search(r"(?:ab){{2,}}+c")

    found = [
        f"{path.name}: {line.strip()}"
        for path in Path(chat_proxy.__file__).parent.rglob("*.py")
        for line in path.read_text().splitlines()
        if POSSESSIVE_GROUP.search(line)
    ]

    assert found == []
