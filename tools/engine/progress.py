"""A line on stderr that says what is going on, for people only."""

import sys


def tell(text: str) -> None:
    """Replace the progress line; an empty text removes it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def say(text: str) -> None:
    """Say something that stays."""
    tell("")
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
