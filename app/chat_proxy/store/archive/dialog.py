"""Conversations in the archive: a file of lines for every day, and beside it where each span lies.

A line that is deleted leaves an empty one: the numbers of the others stand in prompts.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from chat_proxy.store.archive.files import DIALOG, Entry, Folder, dialog_to_read
from chat_proxy.store.purge_selection import Purged, Selection

_NAME = r"[\w.:-]{1,128}"
_PLAIN = re.compile(_NAME, re.ASCII)
_DAY_FILE = re.compile(r"\d{4}-\d\d-\d\d\.jsonl", re.ASCII)
_HEAD = re.compile(
    rf'{{"tenant":"({_NAME})","chain":"({_NAME})"(?:,"after":"({_NAME})")?'
    r',"index":(\d{1,9}),"message":'.encode()
)
_INDEX_LINE = re.compile(rf"[0-9a-f]{{64}} ({_NAME}) \d+ \d+\n".encode())


@dataclass(frozen=True, slots=True)
class Span:
    """Messages that lie one behind the other in a client's conversation, as the client sent them.

    `chain_id` names the history up to the last of them, `after` the one before the first if that
    was archived too. Names come from the content, so no two histories have the same.
    """

    tenant: str
    chain_id: str
    messages: Sequence[Mapping[str, Any]]
    start: int = 0
    after: str | None = None

    def lines(self) -> bytes:
        """Return a line for each message, or raise ValueError if a name is not a plain one."""
        names = (self.tenant, self.chain_id, self.after or "none")
        if not all(_PLAIN.fullmatch(name) for name in names):
            raise ValueError("not a name for the archive")
        after = f',"after":"{self.after}"' if self.after else ""
        head = f'{{"tenant":"{self.tenant}","chain":"{self.chain_id}"{after},"index":'.encode()
        return b"".join(
            b'%b%d,"message":%b}\n' % (head, index, _written(message))
            for index, message in enumerate(self.messages, self.start)
        )


@dataclass(frozen=True, slots=True)
class DialogPlace:
    """Where a span lies: a file, named from the archive's folder, and its lines, from 1 on."""

    file: str
    first: int
    last: int


def find_span(folder: Folder, lines: bytes) -> DialogPlace | None:
    """Return where these very lines were put."""
    known = re.compile(rb"%b \S+ (\d+) (\d+)\n" % _key(lines))
    for day in reversed(days(folder)):
        for line in folder.lines(_index_of(day.name)):
            if found := known.fullmatch(line):
                return DialogPlace(f"{DIALOG}/{day.name}", int(found[1]), int(found[2]))
    return None


def append_span(folder: Folder, tenant: str, lines: bytes, at: float) -> DialogPlace:
    """Append lines to the day's file; when they are on the disk, say so in its index."""
    name = day_file(at)
    folder.append(name, lines, at)
    last = folder.count_lines(name)
    first = last - lines.count(b"\n") + 1
    line = b"%b %b %d %d\n" % (_key(lines), tenant.encode(), first, last)
    folder.append(_index_of(name), line, at)
    return DialogPlace(f"{DIALOG}/{name}", first, last)


def day_file(at: float) -> str:
    """Return the file of a day in UTC."""
    return f"{datetime.fromtimestamp(at, UTC).date().isoformat()}.jsonl"


def days(folder: Folder) -> list[Entry]:
    """Return the files of all days, the oldest first, each at most as young as its name."""
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
    """Delete what is selected: whole files, or the lines of one tenant out of them."""
    purged = Purged()
    for day in days(folder):
        if selection.is_old(day.at):
            is_whole = selection.tenant is None
            purged += remove_day(folder, day) if is_whole else _empty(folder, day, selection)
    return purged


def read_dialog(root: Path, tenant: str, chain_id: str) -> list[dict[str, Any]]:
    """Return a history's messages as the client sent them, as far back as the archive goes."""
    try:
        with dialog_to_read(root) as folder:
            wanted = _histories(folder, tenant, chain_id)
            found = {
                int(head[4]): json.loads(line[head.end() : -2])
                for head, line in _lines_of(folder, tenant)
                if head[2] in wanted
            }
    except FileNotFoundError:
        return []
    return [found[index] for index in sorted(found)]


def _histories(folder: Folder, tenant: str, chain_id: str) -> set[bytes]:
    """Return the name of a history and of those that it goes on from."""
    after = {head[2]: head[3] for head, _ in _lines_of(folder, tenant)}
    wanted: set[bytes] = set()
    name: bytes | None = chain_id.encode()
    while name is not None and name not in wanted:
        wanted.add(name)
        name = after.get(name)
    return wanted


def _lines_of(folder: Folder, tenant: str) -> Iterator[tuple[re.Match[bytes], bytes]]:
    for day in days(folder):
        for line in folder.lines(day.name):
            head = _HEAD.match(line)
            if head and head[1] == tenant.encode():
                yield head, line


def _empty(folder: Folder, day: Entry, selection: Selection) -> Purged:
    """Empty the selected lines; their index goes first, as it points at them."""
    index = _index_of(day.name)
    others = (
        line for line in folder.lines(index) if not _is_selected(line, _INDEX_LINE, selection)
    )
    folder.replace(index, others, day.at)
    gone = Purged()
    whole_bytes = 0
    for line in folder.lines(day.name):
        whole_bytes += len(line)
        if _is_selected(line, _HEAD, selection):
            gone += Purged(lines=1, bytes=len(line) - 1)
    if gone.lines or whole_bytes < day.size:
        folder.replace(day.name, _emptied(folder, day.name, selection), day.at)
    return gone


def _emptied(folder: Folder, name: str, selection: Selection) -> Iterator[bytes]:
    for line in folder.lines(name):
        yield b"\n" if _is_selected(line, _HEAD, selection) else line


def _is_selected(line: bytes, form: re.Pattern[bytes], selection: Selection) -> bool:
    """Tell whether a line is to go: one that says no owner may be the tenant's too."""
    if line == b"\n":
        return False
    found = form.match(line)
    return selection.is_theirs(found[1].decode() if found else None)


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


def _written(message: Mapping[str, Any]) -> bytes:
    """Write a message so that it reads the same again: people's letters as such if that can be."""
    try:
        return orjson.dumps(message)
    except TypeError:
        return json.dumps(message, separators=(",", ":")).encode()
