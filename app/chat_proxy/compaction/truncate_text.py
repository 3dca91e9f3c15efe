"""Truncate a long text to its head and tail, with a note of how much was omitted."""

import re
from collections.abc import Callable

Note = Callable[[int], str]
"""Returns the note for a number of omitted characters; fewer never make it longer."""

LineNote = Callable[[int, int], str]
"""The same for a note that also names the line where the full text continues."""

_MAX_LINE_SEARCH_CHARS = 200
_MAX_COUNT_DIGITS = 20
_NOTE = re.compile(
    r"\[Tool output truncated: omitted \d{1,20} chars\]"
    r"(?: \[(?:offload id|full text|recall): [^\]]*\])?(?: \[read on from line \d{1,20}\])?"
)
_PLACE = re.compile(
    r"\[(?:Tool output truncated: omitted \d{1,20} chars|base64 removed: \d{1,20} bytes)\]"
    r"( \[(?:offload id: [0-9a-f]{1,64}|recall: r\d{1,6}"
    r"|full text: [^\]\n]{0,400}[0-9a-f]{16,64}\.txt(?:, go on from line \d{1,9})?)\])"
)
_COUNT = re.compile(rf"\d{{1,{_MAX_COUNT_DIGITS}}}")


def omission_note(omitted: int, offload_id: str | None) -> str:
    """Return the note for truncated tool output, with the offload id if the text was stored."""
    note = f"[Tool output truncated: omitted {omitted} chars]"
    return note if offload_id is None else f"{note} [offload id: {offload_id}]"


def file_note(omitted: int, file: str, line: int) -> str:
    """Return the note for truncated tool output, with the file and line where it continues."""
    note = f"[Tool output truncated: omitted {omitted} chars]"
    return f"{note} [full text: {file}, go on from line {line}]"


def place_in(text: str) -> str:
    """Return the note of the place where a truncated text is whole, after a space; else empty."""
    found = _PLACE.search(text)
    return found[1] if found else ""


def line_note(omitted: int, offload_id: str | None, line: int) -> str:
    """Return the note for truncated tool output, with the line from which to read on."""
    return f"{omission_note(omitted, offload_id)} [read on from line {line}]"


def is_truncated(text: str) -> bool:
    """Return whether the text has a note of an earlier truncation."""
    return _NOTE.search(text) is not None


def exceeds(text: str, max_bytes: int) -> bool:
    """Return whether the text has more UTF-8 bytes than this; most texts need no encoding."""
    if len(text) * 4 <= max_bytes:
        return False
    return len(text) > max_bytes or byte_count(text) > max_bytes


def byte_count(text: str) -> int:
    """Return the length in UTF-8 bytes; a lone surrogate counts as three."""
    return len(text) if text.isascii() else len(_bytes_of(text))


def shortened(text: str, max_bytes: int, note: Note) -> str:
    """Return the head and tail of a text with a note between them, in at most `max_bytes` bytes.

    A text within the limit is returned unchanged, so the function is idempotent. Where not even
    the note fits, only the note is returned. The result is never longer than the text, in
    characters or in bytes: a text that cannot be made shorter is returned unchanged.
    """
    return shortened_with_line(text, max_bytes, lambda omitted, _: note(omitted), lambda _: 0)


def shortened_with_line(
    text: str, max_bytes: int, note: LineNote, line_at: Callable[[int], int]
) -> str:
    """Return the same as `shortened`, with a note that names the line where the head ends.

    `line_at` returns the line of the full text at a position of this one.
    """
    if not exceeds(text, max_bytes):
        return text
    longest_note = note(len(text), line_at(len(text)))
    space = max_bytes - byte_count(longest_note) - 2
    kept = min(space, len(text) - len(longest_note) - 2)
    head = _head_of(text, kept // 2, space // 2)
    tail = _tail_of(text, kept - len(head), space - byte_count(head))
    line = line_at(len(head))
    if not head and not tail:
        return _note_only(text, longest_note, lambda omitted: note(omitted, line))
    separator = "" if not head or head.endswith("\n") else "\n"
    end = f"\n{tail}" if tail else ""
    return head + separator + note(len(text) - len(head) - len(tail), line) + end


def _head_of(text: str, max_chars: int, max_bytes: int) -> str:
    """Return the beginning of the text, up to the end of a line if one is near."""
    encoded = _bytes_of(text[: max(max_chars, 0)])
    end = min(max(max_bytes, 0), len(encoded))
    while end < len(encoded) and _is_inside_character(encoded[end]):
        end -= 1
    head = _text_of(encoded[:end])
    line_break = head.rfind("\n", len(head) - _line_search_chars(head))
    return head if line_break < 0 else head[: line_break + 1]


def _tail_of(text: str, max_chars: int, max_bytes: int) -> str:
    """Return the end of the text, from the start of a line if one is near."""
    encoded = _bytes_of(text[len(text) - max(max_chars, 0) :])
    start = max(len(encoded) - max(max_bytes, 0), 0)
    while start < len(encoded) and _is_inside_character(encoded[start]):
        start += 1
    tail = _text_of(encoded[start:])
    line_break = tail.find("\n", 0, _line_search_chars(tail))
    return tail if line_break < 0 else tail[line_break + 1 :]


def _line_search_chars(text: str) -> int:
    """Return how many characters a piece may lose to end at a line break."""
    return min(_MAX_LINE_SEARCH_CHARS, len(text) // 4)


def _note_only(text: str, longest_note: str, note: Note) -> str:
    """Return only the note, unless it saves nothing or the text is already a note."""
    if len(longest_note) > len(text) or byte_count(longest_note) >= byte_count(text):
        return text
    return text if _is_note(text, longest_note, note) else note(len(text))


def _is_note(text: str, longest_note: str, note: Note) -> bool:
    """Return whether the whole text is a note, with any count."""
    if _NOTE.fullmatch(text):
        return True
    if len(text) > len(longest_note) + _MAX_COUNT_DIGITS:
        return False
    return any(note(int(count)) == text for count in _COUNT.findall(text))


def _is_inside_character(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _bytes_of(text: str) -> bytes:
    """Encode a text; keep lone surrogates, which clients send when they cut an emoji in two."""
    return text.encode("utf-8", "surrogatepass")


def _text_of(encoded: bytes) -> str:
    return encoded.decode("utf-8", "surrogatepass")
