"""Cutting a long text down to its head and tail, with a note between that says how much is gone."""

import re
from collections.abc import Callable
from functools import partial

Note = Callable[[int], str]
"""Says how many characters were omitted; the fewer, the shorter or as long."""

_NEAR_CHARS = 200
_LONGEST_COUNT = 20
_NOTE = re.compile(
    r"\[Tool output truncated: omitted \d{1,20} chars\](?: \[(?:offload id|full text): [^\]]*\])?"
)
_COUNT = re.compile(rf"\d{{1,{_LONGEST_COUNT}}}")


def omission_note(omitted: int, offload_id: str | None) -> str:
    """Say how much of a tool's output is gone and, if it was kept, under which id."""
    note = f"[Tool output truncated: omitted {omitted} chars]"
    return note if offload_id is None else f"{note} [offload id: {offload_id}]"


def file_note(omitted: int, file: str, line: int) -> str:
    """Say how much of a tool's output is gone, and where in which file it goes on."""
    note = f"[Tool output truncated: omitted {omitted} chars]"
    return f"{note} [full text: {file}, go on from line {line}]"


def shortened_file(text: str, max_bytes: int, file: str) -> str:
    """Shorten a text that can be read on in a file: the note names the line."""
    last_line = text.count("\n") + 1
    cut = shortened(text, max_bytes, partial(file_note, file=file, line=last_line))
    place = cut.find(f"] [full text: {file}, ")
    if cut is text or place < 0:
        return cut
    head = cut[: cut.rindex("[Tool output truncated: ", 0, place)]
    # A line break before the note is the text's own, or there for the note only.
    line = head.count("\n") + text.startswith(head)
    end = cut[place:].replace(f" line {last_line}]", f" line {max(1, line)}]", 1)
    return cut[:place] + end


def exceeds(text: str, max_bytes: int) -> bool:
    """Tell whether the text has more bytes than this; most texts are not even encoded."""
    if len(text) * 4 <= max_bytes:
        return False
    return len(text) > max_bytes or byte_count(text) > max_bytes


def byte_count(text: str) -> int:
    """Return the length in UTF-8; a lone surrogate counts as its three bytes."""
    return len(text) if text.isascii() else len(_bytes_of(text))


def shortened(text: str, max_bytes: int, note: Note) -> str:
    """Return the head and the tail of a text with a note between, in at most so many bytes.

    A text within the limit comes back as it is, so cutting twice is cutting once. Where not even
    the note fits, the note stands alone. Nothing ever comes back longer than it was, in characters
    or in bytes: what cannot be made shorter stays.
    """
    if not exceeds(text, max_bytes):
        return text
    longest = note(len(text))
    room = max_bytes - byte_count(longest) - 2
    kept = min(room, len(text) - len(longest) - 2)
    head = _head_of(text, kept // 2, room // 2)
    tail = _tail_of(text, kept - len(head), room - byte_count(head))
    if not head and not tail:
        return _note_alone(text, longest, note)
    border = "" if not head or head.endswith("\n") else "\n"
    end = f"\n{tail}" if tail else ""
    return head + border + note(len(text) - len(head) - len(tail)) + end


def _head_of(text: str, max_chars: int, max_bytes: int) -> str:
    """Return the text's beginning, up to a line's end if one is near."""
    encoded = _bytes_of(text[: max(max_chars, 0)])
    end = min(max(max_bytes, 0), len(encoded))
    while end < len(encoded) and _is_inside_character(encoded[end]):
        end -= 1
    head = _text_of(encoded[:end])
    border = head.rfind("\n", len(head) - _near(head))
    return head if border < 0 else head[: border + 1]


def _tail_of(text: str, max_chars: int, max_bytes: int) -> str:
    """Return the text's end, from a line's beginning on if one is near."""
    encoded = _bytes_of(text[len(text) - max(max_chars, 0) :])
    start = max(len(encoded) - max(max_bytes, 0), 0)
    while start < len(encoded) and _is_inside_character(encoded[start]):
        start += 1
    tail = _text_of(encoded[start:])
    border = tail.find("\n", 0, _near(tail))
    return tail if border < 0 else tail[border + 1 :]


def _near(text: str) -> int:
    """Return how many characters a piece may lose to end with a line."""
    return min(_NEAR_CHARS, len(text) // 4)


def _note_alone(text: str, longest: str, note: Note) -> str:
    """Return just the note, unless that is no gain or the text is a note already."""
    if len(longest) > len(text) or byte_count(longest) >= byte_count(text):
        return text
    return text if _is_note(text, longest, note) else longest


def _is_note(text: str, longest: str, note: Note) -> bool:
    """Tell whether the text is all note, whatever the count in it."""
    if _NOTE.fullmatch(text):
        return True
    if len(text) > len(longest) + _LONGEST_COUNT:
        return False
    return any(note(int(count)) == text for count in _COUNT.findall(text))


def _is_inside_character(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _bytes_of(text: str) -> bytes:
    """Encode a text; lone surrogates, which clients that cut emoji send, stay what they are."""
    return text.encode("utf-8", "surrogatepass")


def _text_of(encoded: bytes) -> str:
    return encoded.decode("utf-8", "surrogatepass")
