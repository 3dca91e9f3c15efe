"""The structure of a parsed body, and the memory that such a body takes."""

import re
from typing import Any, Final, NamedTuple

# Measured as the growth of a process that holds many bodies of one kind; a body of 0.72 MB took up
# to 28 times its size. The text is held as bytes and as strings, and one character beyond 16 bits
# makes all of its string wide.
TEXT_BYTES: Final = 3
WIDE_TEXT_BYTES: Final = 7
CONTAINER_BYTES: Final = 140
VALUE_BYTES: Final = 100
MESSAGE_BYTES: Final = 400

_NESTING: Final = (dict, list)
_WIDE_BYTES: Final = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")
_WIDE_ESCAPE: Final = re.compile(rb"\\u[dD][89abAB]")
"""What characters beyond 16 bits begin with, in UTF-8 and as escapes."""


class Structure(NamedTuple):
    """What a text consists of after parsing."""

    containers: int = 0
    """Lists and objects."""
    values: int = 0
    """What they hold: strings, numbers, and each other."""
    wide_bytes: int = 0
    """The length of the text if it has characters beyond 16 bits; else 0."""
    depth: int = 0
    """Levels of nesting."""

    def combined_with(self, other: "Structure") -> "Structure":
        """Return the structure of two texts together."""
        return Structure(
            self.containers + other.containers,
            self.values + other.values,
            self.wide_bytes + other.wide_bytes,
            max(self.depth, other.depth),
        )

    def memory_bytes(self, body_bytes: int, messages: int) -> int:
        """Return the memory that a body of this structure takes, parsed and looked at."""
        return (
            TEXT_BYTES * body_bytes
            + WIDE_TEXT_BYTES * self.wide_bytes
            + CONTAINER_BYTES * self.containers
            + VALUE_BYTES * max(0, self.values - self.containers)
            + MESSAGE_BYTES * messages
        )


def structure_of(value: object, text: bytes) -> Structure:
    """Return the structure of a list or an object and of its text."""
    containers = values = depth = 0
    level: list[Any] = [value]
    while level:
        depth += 1
        containers += len(level)
        values += sum(map(len, level))
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) in _NESTING
        ]
    return Structure(containers, values, len(text) if is_wide(text) else 0, depth)


def is_wide(text: bytes) -> bool:
    """Return whether a text has characters beyond 16 bits.

    The plain searches come first because the regular expression is slow.
    """
    if any(mark in text for mark in _WIDE_BYTES):
        return True
    may_match = b"\\ud" in text or b"\\uD" in text
    return may_match and _WIDE_ESCAPE.search(text) is not None
