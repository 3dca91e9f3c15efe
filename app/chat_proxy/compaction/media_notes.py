"""What is left of a medium that leaves the prompt: its name, its size, what was said about it."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

from chat_proxy.chat.media import Media
from chat_proxy.chat.message import Message
from chat_proxy.compaction.ageing.line import cut_end
from chat_proxy.compaction.summary.notes.telegraphic import sentences_of
from chat_proxy.compaction.summary.sanitise import sanitised
from chat_proxy.compaction.summary.validation.foreign import without_keys
from chat_proxy.compaction.summary.validation.reasoning import without_leading_thoughts
from chat_proxy.tokens.images.size import image_size

LEFT_OUT_NOTE: Final = (
    "Some attachments were too large for the model's context window and were removed. Tell the user"
    " that they were too large, and suggest a smaller file or fewer files."
)
NAMELESS: Final = "file"
LONGEST_NAME: Final = 80
LONGEST_SAID: Final = 240
MOST_SENTENCES: Final = 3
LONGEST_NOTE: Final = 480

_MEDIA_NOTE: Final = re.compile(
    r"\[Old inline media cleared: [a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,60}\]"
    rf"(?: ([^\n]{{0,{LONGEST_NOTE}}}))?"
)
_NAME_KEYS = ("filename", "file_name", "name", "title", "uri")
_SCANNED_CHARS = 400
_READ_CHARS = 4_000


def media_note(mime: str, details: str = "") -> str:
    """Return the note that replaces a medium; it begins as clients and models know it."""
    note = f"[Old inline media cleared: {mime}]"
    return f"{note} {details[:LONGEST_NOTE]}" if details else note


def attached_note(medium: Media, part: dict[str, Any]) -> str:
    """Return the note that names a medium of the current message which does not fit."""
    return f"[Attached {medium.mime}: {file_name(medium, part) or NAMELESS}]"


def is_media_note(text: str) -> bool:
    """Return whether a text is the note of a medium that was cleared."""
    return _MEDIA_NOTE.fullmatch(text) is not None


def details_in(text: str) -> str:
    """Return what the note of a cleared medium says about it; empty if it is no note."""
    found = _MEDIA_NOTE.fullmatch(text)
    return (found[1] or "") if found else ""


def details_of(medium: Media, part: dict[str, Any], message: str, said: str, told: str = "") -> str:
    """Return the name, size and place of a medium, and what it shows.

    That is what a model wrote about it, if one was asked, else what the assistant said.
    """
    about = ", ".join(filter(None, (name_and_size(medium, part), f"message {message}")))
    if told:
        return f"{about}; it shows: {told}"
    return f"{about}; the assistant said: {said}" if said else about


def facts_of(medium: Media, part: dict[str, Any]) -> str:
    """Return a medium's kind and type, with its name and size if they are known."""
    known = name_and_size(medium, part)
    kind = f"[{medium.kind}: {medium.mime}]"
    return f"{kind} {known}" if known else kind


def name_and_size(medium: Media, part: dict[str, Any]) -> str:
    """Return a medium's file name and its pixels, as far as they are known."""
    return ", ".join(filter(None, (file_name(medium, part), _pixels(medium))))


def part_of(medium: Media, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a message that contains a medium."""
    part: Any = fields
    for step in medium.path:
        part = part[step]
    return part if type(part) is dict else {}


def said_after(messages: Sequence[Message], index: int) -> str:
    """Return the first sentences of the answer to the message at an index, as one line.

    What is appended to a history later does not change it: only the next answer counts.
    """
    for message in islice(messages, index + 1, None):
        if message.is_assistant:
            return _first_sentences(message)
        if message.is_user and not _is_attached(message):
            return ""
    return ""


def file_name(medium: Media, part: dict[str, Any]) -> str:
    """Return the first usable name, of the client or the URL; empty if there is none."""
    places = [part, *(value for value in part.values() if type(value) is dict)]
    given = (place[key] for key in _NAME_KEYS for place in places if type(place.get(key)) is str)
    names = map(_sanitised_name, (*given, _last_segment(medium)))
    return next(filter(None, names), "")


def _is_attached(message: Message) -> bool:
    """Return whether a user message has media: several in a row are answered together."""
    return type(message.content) is list and any(True for _ in message.media())


def one_line(text: str) -> str:
    """Return the first sentences of a model's text as one line, without anything dangerous."""
    text = without_leading_thoughts(text[:_READ_CHARS]).partition("<details")[0]
    sentences = sentences_of(sanitised(without_keys(text)))[:MOST_SENTENCES]
    return cut_end(" ".join(" ".join(sentences).split()), LONGEST_SAID)


def _first_sentences(message: Message) -> str:
    bare = Message({"role": "assistant", "content": message.content})
    texts = [text[:_READ_CHARS] for kind, text in bare.pieces() if kind == "text"]
    return one_line("\n".join(texts))


def _pixels(medium: Media) -> str:
    if medium.kind != "image" or not medium.is_inline:
        return ""
    size = image_size(medium.data)
    return f"{size.width}x{size.height}" if size else ""


def _last_segment(medium: Media) -> str:
    """Return the last path segment of a remote URL."""
    if medium.is_inline:
        return ""
    url = re.split("[?#]", medium.data, maxsplit=1)[0]
    return unquote(url.partition("://")[2].partition("/")[2].rpartition("/")[2])


def _sanitised_name(name: str) -> str:
    """Return a name without folders, brackets and invisible characters; empty if none is left."""
    last = name.replace("\\", "/").rpartition("/")[2][:_SCANNED_CHARS]
    visible = "".join(letter for letter in last if letter.isprintable() and letter not in "[]")
    short = visible.strip()[:LONGEST_NAME].rstrip()
    return short if short.strip(".") else ""
