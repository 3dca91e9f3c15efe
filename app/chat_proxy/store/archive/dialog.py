"""Conversations in the archive: a file of lines for each day, with an index of its spans.

A deleted line becomes an empty line, because prompts mention the numbers of the other lines.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.store.archive.files import DIALOG, Entry, Folder
from chat_proxy.store.purge_selection import Purged, Selection

_NAME = r"[\w.:-]{1,128}"
_PLAIN = re.compile(_NAME, re.ASCII)
_DAY_FILE = re.compile(r"\d{4}-\d\d-\d\d\.jsonl", re.ASCII)
_HEAD = re.compile(
    rf'{{"tenant":"({_NAME})","chain":"({_NAME})"(?:,"after":"({_NAME})")?'
    r',"index":(\d{1,9}),"message":'.encode()
)
# The last number, the bytes of the span, is missing in files of older versions.
_INDEX_LINE = re.compile(rf"[0-9a-f]{{64}} ({_NAME}) (\d+) (\d+)(?: (\d+))?\n".encode())


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive messages of a client's conversation, as the client sent them.

    `chain_id` names the history up to the last message; `after` names the history before the first
    one, if that was archived too. Names are derived from the content, so they are unique.
    """

    tenant: str
    chain_id: str
    messages: Sequence[Mapping[str, Any]]
    start: int = 0
    after: str | None = None

    def lines(self) -> bytes:
        """Return a line for each message, or raise ValueError if a name has other characters."""
        names = (self.tenant, self.chain_id, self.after or "none")
        if not all(_PLAIN.fullmatch(name) for name in names):
            raise ValueError("not a valid name for the archive")
        after = f',"after":"{self.after}"' if self.after else ""
        head = f'{{"tenant":"{self.tenant}","chain":"{self.chain_id}"{after},"index":'.encode()
        return b"".join(
            b'%b%d,"message":%b}\n' % (head, index, serialise(message))
            for index, message in enumerate(self.messages, self.start)
        )


@dataclass(frozen=True, slots=True)
class DialogPlace:
    """The place of a span: a file, relative to the archive's folder, and line numbers from 1."""

    file: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A span in a day's file, as the day's index lists it."""

    tenant: str
    first: int
    last: int
    size: int


def find_span(folder: Folder, lines: bytes) -> DialogPlace | None:
    """Return the place where exactly these lines are stored, if they are."""
    known = re.compile(rb"%b \S+ (\d+) (\d+)(?: \d+)?\n" % _key(lines))
    for day in reversed(days(folder)):
        for line in folder.lines(_index_of(day.name)):
            if found := known.fullmatch(line):
                return DialogPlace(f"{DIALOG}/{day.name}", int(found[1]), int(found[2]))
    return None


def append_span(folder: Folder, tenant: str, lines: bytes, at: float) -> DialogPlace:
    """Append lines to the day's file; once they are on disk, add them to its index."""
    name = day_file(at)
    folder.append(name, lines, at)
    last = folder.count_lines(name)
    first = last - lines.count(b"\n") + 1
    line = b"%b %b %d %d %d\n" % (_key(lines), tenant.encode(), first, last, len(lines))
    folder.append(_index_of(name), line, at)
    return DialogPlace(f"{DIALOG}/{name}", first, last)


def spans_of(folder: Folder, day: Entry) -> list[Stored]:
    """Return the spans of a day whose sizes are known, oldest first."""
    found = (_INDEX_LINE.fullmatch(line) for line in folder.lines(_index_of(day.name)))
    return [
        Stored(it[1].decode(), int(it[2]), int(it[3]), int(it[4])) for it in found if it and it[4]
    ]


def drop_spans(folder: Folder, day: Entry, spans: list[Stored], *, is_closed: bool) -> None:
    """Empty the lines of some spans; remove the day if it is closed and nothing is left of it."""
    index = _index_of(day.name)
    dropped = {(span.first, span.last) for span in spans}
    others = [
        line
        for line in folder.lines(index)
        if not ((it := _INDEX_LINE.fullmatch(line)) and (int(it[2]), int(it[3])) in dropped)
    ]
    folder.replace(index, others, day.at)
    numbers = {number for first, last in dropped for number in range(first, last + 1)}
    texts = (
        b"\n" if number in numbers else line
        for number, line in enumerate(folder.lines(day.name), 1)
    )
    folder.replace(day.name, texts, day.at)
    if is_closed and all(line == b"\n" for line in folder.lines(day.name)):
        remove_day(folder, day)


def day_file(at: float) -> str:
    """Return the file name of a day in UTC."""
    return f"{datetime.fromtimestamp(at, UTC).date().isoformat()}.jsonl"


def days(folder: Folder) -> list[Entry]:
    """Return the files of all days, oldest first, none dated after the day in its name."""
    return [
        Entry(entry.name, entry.size, min(entry.at, end))
        for entry in folder.entries()
        if (end := _end_of_day(entry.name)) is not None
    ]


def remove_day(folder: Folder, day: Entry) -> Purged:
    """Remove a day's file and its index."""
    lines = sum(line != b"\n" for line in folder.lines(day.name))
    folder.remove(_index_of(day.name))
    folder.remove(day.name)
    return Purged(files=1, lines=lines, bytes=day.size)


def purge_dialog(folder: Folder, selection: Selection) -> Purged:
    """Delete the selected files, or the lines of one tenant in them."""
    purged = Purged()
    for day in days(folder):
        if selection.is_old(day.at):
            is_whole = selection.tenant is None
            purged += remove_day(folder, day) if is_whole else _empty(folder, day, selection)
    return purged


def _empty(folder: Folder, day: Entry, selection: Selection) -> Purged:
    """Empty the selected lines, after deleting the index entries that point to them."""
    index = _index_of(day.name)
    others = (
        line for line in folder.lines(index) if not _is_selected(line, _INDEX_LINE, selection)
    )
    folder.replace(index, others, day.at)
    purged = Purged()
    whole_bytes = 0
    for line in folder.lines(day.name):
        whole_bytes += len(line)
        if _is_selected(line, _HEAD, selection):
            purged += Purged(lines=1, bytes=len(line) - 1)
    if purged.lines or whole_bytes < day.size:
        folder.replace(day.name, _emptied(folder, day.name, selection), day.at)
    return purged


def _emptied(folder: Folder, name: str, selection: Selection) -> Iterator[bytes]:
    for line in folder.lines(name):
        yield b"\n" if _is_selected(line, _HEAD, selection) else line


def _is_selected(line: bytes, form: re.Pattern[bytes], selection: Selection) -> bool:
    """Return whether a line is selected; one without a readable owner may be the tenant's."""
    if line == b"\n":
        return False
    found = form.match(line)
    return selection.may_belong_to_tenant(found[1].decode() if found else None)


def _end_of_day(name: str) -> float | None:
    if not _DAY_FILE.fullmatch(name):
        return None
    try:
        start = datetime.fromisoformat(name.removesuffix(".jsonl")).replace(tzinfo=UTC)
    except ValueError:
        return None
    return (start + timedelta(days=1)).timestamp()


def _index_of(name: str) -> str:
    return f"{name.removesuffix('.jsonl')}.index"


def _key(lines: bytes) -> bytes:
    return sha256(lines).hexdigest().encode()
