"""The texts of a tool result with their paths, and the base64 inside such a text."""

import re
from collections.abc import Iterator
from string import ascii_letters, digits
from typing import Any, Final, NamedTuple

from chat_proxy.chat.media import MAX_DEPTH, Path, is_media, nested_parts
from chat_proxy.chat.message import Message

PlacedText = tuple[Path, str]

_TEXT_TYPES = ("text", "input_text", "output_text", None)

LEAST_SEARCHED_CHARS: Final = 1_000
"""A shorter text is not searched for base64: it costs few tokens with it."""
LEAST_BASE64_CHARS: Final = 200
"""A shorter run is no payload: it may be a hash, a key or an id."""
MAX_EXAMINED_CHARS: Final = 100_000
"""So many characters that could be base64 are examined while a request is only looked at."""

_MAX_PASSES = 4
_LEAST_LINE_CHARS = 60
_LEAST_LAST_LINE_CHARS = 20
_SAMPLE_CHARS = 4_000
_LEAST_DISTINCT_CHARS = 16
_MAX_DATA_PREFIX_CHARS = 160
# The line ends of wrapped base64 may be escaped, as in a JSON string, and so may its slashes.
_REGION_CHARS = ascii_letters + digits + "+/=_-\\\r\n"
_REGION_END = re.compile(r"[^A-Za-z0-9+/=_\\\r\n-]")
_LINE_END = r"\r?\n|\\{1,4}+r\\{1,4}+n|\\{1,4}+n"
_RUN = r"[A-Za-z0-9+/]*+(?>(?:\\/[A-Za-z0-9+/]*+)*)={0,2}+"
_FIRST_LINE = re.compile(
    # Not inside a run: the n of an escaped line end is no part of the line after it.
    r"(?:(?<![A-Za-z0-9+/\\])|(?<=\\n))"
    rf"(?=[A-Za-z0-9+/]|\\/)(?=[A-Za-z0-9+/\\]{{{_LEAST_LINE_CHARS}}}){_RUN}"
)
_NEXT_LINE = re.compile(rf"(?:{_LINE_END})({_RUN})")
_URL_SAFE = re.compile(
    rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9_-]{{{LEAST_BASE64_CHARS},}}+={{0,2}}+(?![+/])"
)
_BETWEEN = re.compile(rf"{_LINE_END}|[\\=]")
# An escaped line end is a backslash and a letter, and both are no base64.
_NOT_ENCODED = ("=", "\r", "\n", "\\", "\\r", "\\n")
_DATA_PREFIX = re.compile(r"data:[^,\s\"'<>()]{0,150};base64,\Z", re.IGNORECASE)
_HEX = re.compile(r"[0-9A-Fa-f_-]*")
_DIGIT = re.compile(r"[0-9]")
_WORD = re.compile(r"[a-z]{4,}")


def texts_in(message: Message) -> list[PlacedText]:
    """Return every text of the content with its path, in order; media have no text."""
    content = message.content
    if type(content) is str:
        return [(("content",), content)]
    found: list[PlacedText] = []
    _add_texts(content, ("content",), found, MAX_DEPTH)
    return found


def _add_texts(value: Any, path: Path, found: list[PlacedText], depth: int) -> None:
    if type(value) is str:
        found.append((path, value))
    elif type(value) is list and depth:
        for index, part in enumerate(value):
            _add_texts(part, (*path, index), found, depth - 1)
    elif type(value) is dict:
        _add_part(value, path, found, depth)


def _add_part(part: dict[str, Any], path: Path, found: list[PlacedText], depth: int) -> None:
    text = part.get("text")
    if type(text) is str and part.get("type") in _TEXT_TYPES:
        found.append(((*path, "text"), text))
    elif not is_media(part):
        nested = nested_parts(part)
        if nested:
            _add_texts(nested[1], path + nested[0], found, depth)
        else:
            _add_plain_text(part, path, found)


def _add_plain_text(part: dict[str, Any], path: Path, found: list[PlacedText]) -> None:
    """Add the text of a nested tool result, text document or text resource."""
    for keys in (("content",), ("source", "data"), ("resource", "text")):
        value: Any = part
        for key in keys:
            value = value.get(key) if type(value) is dict else None
        if type(value) is str:
            found.append(((*path, *keys), value))
            return


def with_plain_parts_joined(message: Message) -> Message:
    """Return a message whose plain text parts are joined into one, at the position of the first.

    Parts with further fields, such as cache marks, are kept, and so is the order of the others.
    """
    content = message.content
    if type(content) is not list:
        return message
    plain = [index for index, part in enumerate(content) if _is_plain(part)]
    if len(plain) < 2:
        return message
    texts = [_plain_text(content[index]) for index in plain]
    parts = [part for part in content if not _is_plain(part)]
    first = content[plain[0]]
    joined = "\n".join(texts)
    parts.insert(plain[0], joined if type(first) is str else {**first, "text": joined})
    return message.with_content(parts)


def _is_plain(part: Any) -> bool:
    if type(part) is not dict:
        return type(part) is str
    is_text = type(part.get("text")) is str and part.get("type") in _TEXT_TYPES
    return is_text and part.keys() <= {"type", "text"}


def _plain_text(part: Any) -> str:
    text: str = part if type(part) is str else part["text"]
    return text


class Base64Run(NamedTuple):
    """The characters `start:end` of a text that are base64, with the prefix of a data URL."""

    start: int
    end: int
    size: int
    """The number of bytes that they encode."""


class Base64Search:
    """Tells whether texts may contain base64, at a bounded cost for all of them together."""

    def __init__(self, max_chars: int = MAX_EXAMINED_CHARS) -> None:
        self._left = max_chars

    def may_find(self, text: str) -> bool:
        """Return whether `base64_runs` would find something, or looking closer costs too much."""
        for start, end in _regions(text, self._left):
            self._left -= end - start
            if self._left <= 0 or next(_runs_between(text, start, end), None):
                return True
        return False


def has_base64(text: str) -> bool:
    """Return whether a long text contains a data URL or another long run of base64."""
    return next(base64_runs(text), None) is not None


def base64_runs(text: str) -> Iterator[Base64Run]:
    """Yield every data URL and every other long run of base64 in a long text."""
    for start, end in _regions(text, len(text)):
        yield from _runs_between(text, start, end)


def _regions(text: str, longest: int) -> Iterator[tuple[int, int]]:
    """Yield the long parts that have only characters of base64 and line ends.

    Most texts cost about half a nanosecond per character: of 200 characters only the last few are
    read, unless these could be base64.
    """
    if len(text) <= LEAST_SEARCHED_CHARS:
        return
    start, end = 0, LEAST_BASE64_CHARS
    while end <= len(text):
        space = text.rfind(" ", start, end)
        if space >= 0:
            start = space + 1
        elif kept := len(text[start:end].rstrip(_REGION_CHARS)):
            start += kept
        else:
            limit = min(len(text), start + longest)
            ending = _REGION_END.search(text, end, limit)
            end = ending.start() if ending else max(end, limit)
            yield start, end
            start = end
        end = start + LEAST_BASE64_CHARS


def _runs_between(text: str, start: int, end: int, depth: int = _MAX_PASSES) -> Iterator[Base64Run]:
    """Yield the runs in a part of the text that has only characters of base64 and line ends.

    What is left between them is searched again: it may look like base64 without its neighbours.
    """
    done = start
    for first, last in _candidates(text[start:end]):
        run = _payload(text, start + first, start + last) if start + first >= done else None
        if run is not None:
            if depth > 1:
                yield from _runs_between(text, done, start + first, depth - 1)
            yield run
            done = run.end
    if start < done and depth > 1:
        yield from _runs_between(text, done, end, depth - 1)


def _candidates(part: str) -> list[tuple[int, int]]:
    """Return the spans that have the form of base64, the longest of several first."""
    spans = list(_blocks(part))
    if "-" in part and "_" in part:
        spans += [found.span() for found in _URL_SAFE.finditer(part)]
    return sorted(spans, key=lambda span: (span[0], -span[1]))


def _blocks(part: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of long lines, and of lines of equal length as in mail and PEM."""
    start = 0
    while first := _FIRST_LINE.search(part, start):
        block_end = _block_end(part, first)
        if block_end - first.start() >= LEAST_BASE64_CHARS:
            yield first.start(), block_end
            start = block_end
        else:
            start = first.end()


def _block_end(part: str, first: re.Match[str]) -> int:
    """Return the end of the block that a line begins; the line's own end if it is alone."""
    width = first.end() - first.start()
    after = first.end()
    if width < _LEAST_LINE_CHARS or first[0].endswith("="):
        return after
    while line := _NEXT_LINE.match(part, after):
        if len(line[1]) != width or line[1].endswith("="):
            is_last = after > first.end() and _is_last_line(line[1], width)
            return line.end() if is_last else after
        after = line.end()
    return after


def _is_last_line(line: str, width: int) -> bool:
    """Return whether a shorter line belongs to the block: a word after the block does not."""
    is_full = len(line) >= _LEAST_LAST_LINE_CHARS and len(line) % 4 == 0
    return len(line) <= width and (line.endswith("=") or is_full)


def _payload(text: str, start: int, end: int) -> Base64Run | None:
    """Return the run, if these characters are base64 and not a path, a name or a number."""
    size = (end - start - sum(text.count(sign, start, end) for sign in _NOT_ENCODED)) * 3 // 4
    if text[max(0, start - 8) : start].lower() == ";base64,":
        prefix = _DATA_PREFIX.search(text, max(0, start - _MAX_DATA_PREFIX_CHARS), start)
        return Base64Run(prefix.start() if prefix else start, end, size)
    sample = _BETWEEN.sub("", text[start : min(end, start + _SAMPLE_CHARS)])
    return Base64Run(start, end, size) if _is_base64(sample) else None


def _is_base64(sample: str) -> bool:
    """Return whether the characters are mixed as in base64, unlike words, hex or a drawn line."""
    if len(set(sample)) < _LEAST_DISTINCT_CHARS or _HEX.fullmatch(sample):
        return False
    if sample in (sample.lower(), sample.upper()) or not _DIGIT.search(sample):
        return False
    signs = sample.count("-"), sample.count("_")
    if any(signs) and not (all(signs) and 10 * sum(signs) <= len(sample)):
        return False
    return 4 * sum(map(len, _WORD.findall(sample))) <= len(sample)
