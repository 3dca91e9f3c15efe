"""What is going on, on stderr: one line that changes for people, one line a step for files."""

import sys


def tell(text: str) -> None:
    """Replace the progress line, or write the next one; an empty text removes it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
    elif text:
        sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
