"""Log lines: a fixed sentence plus fields, as JSON, or readable on a terminal.

Exceptions are told by their type and places only: their messages may quote a conversation.
"""

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TextIO

import orjson

Fields = Mapping[str, Any]

_LEVELS = {level: name.lower() for name, level in logging.getLevelNamesMapping().items()}
# What one write puts into a pipe as a whole, whoever else writes to it.
ATOMIC_BYTES = 4_096
INFO = logging.INFO
WARNING = logging.WARNING
ERROR = logging.ERROR


def json_head(now: float, level: str, sentence: str) -> Fields:
    """Return what a line begins with, and all lines of one moment."""
    return {"time": _utc(now), "level": level, "message": _plain(sentence)}


def json_line(head: Fields, fields: Fields) -> str:
    """Return one JSON object as a line; but for a printable sentence of ours it is plain ASCII."""
    if (line := _ascii_json({**head, **fields})) is not None:
        return line + "\n"
    begun = orjson.dumps(head).decode()
    if not fields:
        return begun + "\n"
    told = _ascii_json(fields) or json.dumps(fields, default=str).replace("\x7f", "\\u007f")
    return f"{begun[:-1]},{told[1:]}\n"


def _ascii_json(fields: Fields) -> str | None:
    """Return the fields as JSON if that is printable ASCII."""
    try:
        line = orjson.dumps(fields, default=str)
    except TypeError:  # lone surrogates, in a model's name for one
        return None
    return line.decode() if line.isascii() and b"\x7f" not in line else None


def text_head(now: float, level: str, sentence: str) -> str:
    """Return the same for people."""
    clock = time.strftime("%H:%M:%S", time.localtime(now))
    return f"{clock} {level:7} {_plain(sentence)}"


def text_line(head: str, fields: Fields) -> str:
    """Return a line for people: time, level, sentence, then `name=value`."""
    told = " ".join(f"{name}={_plain(value)}" for name, value in fields.items() if value)
    return f"{head} {told}".rstrip() + "\n"


def _plain(value: object) -> str:
    """Return the value as one line without control characters."""
    text = str(value)
    return text if text.isprintable() else ascii(text)[1:-1]


def _utc(now: float) -> str:
    return f"{_utc_second(int(now))}.{int(now % 1 * 1000):03d}Z"


@lru_cache(maxsize=2)
def _utc_second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def _exception(error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    return {
        "exception": type(error).__name__,
        "at": [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames],
    }


class LogWriter:
    """Writes lines to one stream; the standard library's logging would cost more than a request."""

    def __init__(self) -> None:
        self.level = INFO
        self._stream: TextIO = sys.stderr
        self._head: Callable[[float, str, str], Any] = json_head
        self._line: Callable[[Any, Fields], str] = json_line

    def configure(self, level: str, form: str, stream: TextIO) -> None:
        """Choose what is written, how and where."""
        self.level = logging.getLevelNamesMapping()[level.upper()]
        self._stream = stream
        readable = form == "text" or (form == "auto" and stream.isatty())
        self._head = text_head if readable else json_head
        self._line = text_line if readable else json_line

    def write(self, level: int, sentence: str, fields: Fields) -> None:
        """Write one line if its level is wanted; a line that cannot be written is lost.

        The next one is tried again: a full disk passes.
        """
        self.write_all(level, sentence, (fields,))

    def write_all(self, level: int, sentence: str, of_each: Iterable[Fields]) -> None:
        """Write a line for each of several, in few pieces that no other worker can tear apart."""
        if level < self.level:
            return
        head = self._head(time.time(), _LEVELS.get(level, "info"), sentence)
        held, held_bytes = "", 0
        for fields in of_each:
            line = self._line_or_nothing(head, fields)
            size = len(line) if line.isascii() else len(line.encode("utf-8", "replace"))
            if held and held_bytes + size > ATOMIC_BYTES:
                self._put(held)
                held, held_bytes = "", 0
            held += line
            held_bytes += size
        self._put(held)

    def _line_or_nothing(self, head: Any, fields: Fields) -> str:
        try:
            return self._line(head, fields)
        except Exception:  # noqa: BLE001 - no request fails because nobody could write about it
            return ""

    def _put(self, lines: str) -> None:
        try:
            self._stream.write(lines)
            self._stream.flush()
        except Exception:  # noqa: BLE001 - as above
            return


_WRITER = LogWriter()


def configure_logging(level: str, form: str, stream: TextIO | None = None) -> None:
    """Send every log line of this process to stderr in the chosen form."""
    _WRITER.configure(level, form, stream or sys.stderr)
    logging.basicConfig(level=_WRITER.level, handlers=[LibraryLogHandler()], force=True)
    logging.getLogger("uvicorn").setLevel(max(WARNING, _WRITER.level))
    logging.getLogger("asyncio").setLevel(max(WARNING, _WRITER.level))


def log(sentence: str, level: int = INFO, /, **fields: object) -> None:
    """Write a line: a fixed sentence, and what varies as fields."""
    _WRITER.write(level, sentence, fields)


def log_each(sentence: str, of_each: Iterable[Fields]) -> None:
    """Write the same sentence about several, in one go."""
    _WRITER.write_all(INFO, sentence, of_each)


def log_exception(sentence: str, error: BaseException) -> None:
    """Write a line about an exception that nobody expected."""
    _WRITER.write(ERROR, sentence, _exception(error))


class LibraryLogHandler(logging.Handler):
    """Takes what libraries log: where it comes from and its fixed sentence.

    What they fill in stays out: asyncio quotes exceptions, HTTP libraries quote headers.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write it as a line of ours."""
        error = record.exc_info[1] if record.exc_info else None
        fields = _exception(error) if error else {}
        sentence = str(record.msg).partition("\n")[0]
        _WRITER.write(record.levelno, sentence, {"logger": record.name, **fields})
