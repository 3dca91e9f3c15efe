"""Replace the base64 inside a text by a note of its size: a model cannot read it."""

from collections.abc import Callable
from typing import NamedTuple

from chat_proxy.chat.result_texts import base64_runs


class RemovedLines(NamedTuple):
    """The position of a note in a text, and how many line breaks it replaced."""

    position: int
    line_breaks: int


class WithoutBase64(NamedTuple):
    """A text whose base64 was replaced by notes; the same text if there was none."""

    text: str
    removed: tuple[RemovedLines, ...] = ()

    def line_at(self, position: int) -> int:
        """Return the line of the full text at a position of this one, counted from 1."""
        before = (lines for start, lines in self.removed if start < position)
        return 1 + self.text.count("\n", 0, position) + sum(before)


def base64_note(size: int) -> str:
    """Return the note that replaces base64 of so many bytes."""
    return f"[base64 removed: {size} bytes]"


def without_base64(text: str, whereabouts: Callable[[str], str] = lambda _: "") -> WithoutBase64:
    """Return the text with a note in place of every data URL and long run of base64.

    `whereabouts` returns what follows the first note and says where the full text is. A text that
    would not become shorter is returned unchanged.
    """
    kept: list[str] = []
    removed: list[RemovedLines] = []
    length = end = 0
    for run in base64_runs(text):
        note = base64_note(run.size) + (whereabouts(text) if not removed else "")
        length += run.start - end
        removed.append(RemovedLines(length, text.count("\n", run.start, run.end)))
        length += len(note)
        kept += (text[end : run.start], note)
        end = run.end
    shorter = "".join([*kept, text[end:]]) if removed else text
    if len(shorter) >= len(text):
        return WithoutBase64(text)
    return WithoutBase64(shorter, tuple(removed))
