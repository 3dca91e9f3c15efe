"""Make foreign texts safe to print and to encode, and know who reads them."""

from typing import TextIO


def writes_text(form: str, stream: TextIO) -> bool:
    """Return whether lines are for people: `auto` means that they are on a terminal."""
    return form == "text" or (form == "auto" and stream.isatty())


def printable(text: str) -> str:
    """Return a text as one line without control characters, safe for terminals and logs."""
    return text if text.isprintable() else ascii(text)[1:-1]


def without_surrogates(text: str) -> str:
    """Return a text without lone surrogates, which orjson cannot write."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
