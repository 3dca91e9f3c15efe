"""Log lines: a fixed sentence plus fields, as JSON, or readable on a terminal.

Exceptions are logged by type and place only: their messages may quote a conversation.
"""

import atexit
import json
import logging
import os
import select
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TextIO

import orjson

from chat_proxy.telemetry.printable import printable, writes_text
from chat_proxy.telemetry.text_lines import coloured_head, text_head, text_line

Fields = Mapping[str, Any]

_LEVELS = {level: name.lower() for name, level in logging.getLevelNamesMapping().items()}
# A write of up to this size into a pipe is atomic, even if other processes write to it.
ATOMIC_BYTES = 4_096
# Texts of up to that size that wait for the reader of the log; what comes after them is dropped.
MAX_WAITING = 2_048
# Lines that come within this time are written together: waking a thread costs more than a line.
GATHER_SECONDS = 0.005
LAST_SECONDS = 1.0
INFO = logging.INFO
WARNING = logging.WARNING
ERROR = logging.ERROR


def json_head(now: float, level: str, sentence: str) -> Fields:
    """Return the first fields of a line, shared by all lines that are written together."""
    return {"time": _utc(now), "level": level, "message": printable(sentence)}


def json_line(head: Fields, fields: Fields) -> str:
    """Return a line with one JSON object: ASCII only, except for the sentence in `head`."""
    if (line := _ascii_json({**head, **fields})) is not None:
        return line + "\n"
    begin = orjson.dumps(head).decode()
    if not fields:
        return begin + "\n"
    rest = _ascii_json(fields) or json.dumps(fields, default=str).replace("\x7f", "\\u007f")
    return f"{begin[:-1]},{rest[1:]}\n"


def _ascii_json(fields: Fields) -> str | None:
    """Return the fields as JSON, None if that is not printable ASCII."""
    try:
        line = orjson.dumps(fields, default=str)
    except TypeError:  # lone surrogates, for example in a model's name
        return None
    return line.decode() if line.isascii() and b"\x7f" not in line else None


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


class LogThread:
    """Write texts to a descriptor in a thread: a reader that stops reading stops nobody else.

    The number of waiting texts is bounded; dropped lines are counted, and `notice` makes the line
    that tells how many. Its queue may be used while a finalizer or a signal interrupts its use.
    """

    def __init__(self, descriptor: int, notice: Callable[[int], str]) -> None:
        self._descriptor = os.dup(descriptor)
        self._notice = notice
        self._texts: SimpleQueue[str | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._put = self._done = self._dropped = self._told = 0

    def put(self, text: str) -> None:
        """Let the thread write a text; drop it if too many wait."""
        if self._texts.qsize() >= MAX_WAITING:
            self._dropped += text.count("\n")
            return
        self._put += 1
        self._texts.put(text)
        if self._thread is None or not self._thread.is_alive():  # also after a fork
            self._thread = Thread(target=self._run, name="logs", daemon=True)
            self._thread.start()

    def flush(self, seconds: float) -> None:
        """Wait until everything is written, but not for longer than this."""
        until = time.monotonic() + seconds
        while self._done < self._put and time.monotonic() < until:
            time.sleep(GATHER_SECONDS / 5)

    def close(self) -> None:
        """End the thread when it has written everything."""
        if self._thread is None:
            os.close(self._descriptor)
        else:
            self._texts.put(None)

    def _run(self) -> None:
        while (text := self._texts.get()) is not None:
            time.sleep(GATHER_SECONDS)
            count, held = 1, text
            with suppress(Empty):
                while (text := self._texts.get_nowait()) is not None:
                    if len(held) + len(text) > ATOMIC_BYTES:
                        self._write(held)
                        held = ""
                    held += text
                    count += 1
            self._write(held)
            self._done += count
            if text is None:
                break
        os.close(self._descriptor)

    def _write(self, text: str) -> None:
        """Write a text, and after it how many lines were dropped before."""
        if not self._write_whole(text):
            self._dropped += text.count("\n")
            return
        dropped = self._dropped
        if dropped > self._told and self._write_whole(self._notice(dropped - self._told)):
            self._told = dropped

    def _write_whole(self, text: str) -> bool:
        rest = text.encode("utf-8", "backslashreplace")
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                waiting = select.poll()
                waiting.register(self._descriptor, select.POLLOUT)
                waiting.poll()
            except OSError:  # a disk may be full only for a while
                return False
        return True


class LogWriter:
    """Write lines to one stream; the standard library's logging costs more than a small request.

    A stream with a descriptor is written to by a thread; one in memory cannot block.
    """

    def __init__(self) -> None:
        self.level = INFO
        self._stream: TextIO = sys.stderr
        self._thread: LogThread | None = None
        self._head: Callable[[float, str, str], Any] = json_head
        self._line: Callable[[Any, Fields], str] = json_line

    def configure(self, level: str, form: str, stream: TextIO, *, colours: bool) -> None:
        """Set the level, the format and the stream; only a terminal gets colours."""
        self.level = logging.getLevelNamesMapping()[level.upper()]
        self._stream = stream
        self._end_thread()
        with suppress(OSError, AttributeError, ValueError):  # in memory, or closed
            self._thread = LogThread(stream.fileno(), self._dropped_line)
        readable = writes_text(form, stream)
        readable_head = coloured_head if colours and stream.isatty() else text_head
        self._head = readable_head if readable else json_head
        self._line = text_line if readable else json_line

    def flush(self) -> None:
        """Wait for a moment until everything is written."""
        if self._thread is not None:
            self._thread.flush(LAST_SECONDS)

    def _end_thread(self) -> None:
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    def _dropped_line(self, count: int) -> str:
        head = self._head(time.time(), "warning", "log lines were dropped")
        return self._line_or_nothing(head, {"lines": count})

    def write(self, level: int, sentence: str, fields: Fields) -> None:
        """Write one line, unless its level is too low; a line that cannot be written is lost.

        Later lines are tried again: a disk may be full only for a while.
        """
        self.write_all(level, sentence, (fields,))

    def write_all(self, level: int, sentence: str, of_each: Iterable[Fields]) -> None:
        """Write a line for each set of fields, in few writes that are atomic between workers."""
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
        except Exception:  # noqa: BLE001 - a request must not fail because of its log line
            return ""

    def _put(self, lines: str) -> None:
        if self._thread is not None:
            self._thread.put(lines)
            return
        try:
            self._stream.write(lines)
            self._stream.flush()
        except Exception:  # noqa: BLE001 - as above
            return


_WRITER = LogWriter()
atexit.register(_WRITER.flush)


def configure_logging(
    level: str, form: str, stream: TextIO | None = None, *, colours: bool = False
) -> None:
    """Set level, format and stream for all log lines of this process; stderr is the default.

    With `colours`, readable lines have some on a terminal.
    """
    _WRITER.configure(level, form, stream or sys.stderr, colours=colours)
    logging.basicConfig(level=_WRITER.level, handlers=[LibraryLogHandler()], force=True)
    logging.getLogger("uvicorn").setLevel(max(WARNING, _WRITER.level))
    logging.getLogger("asyncio").setLevel(max(WARNING, _WRITER.level))


def flush_logs() -> None:
    """Wait for a moment until all lines are written: before the process is ended at once."""
    _WRITER.flush()


def log(sentence: str, level: int = INFO, /, **fields: object) -> None:
    """Log a fixed sentence, with everything variable as fields."""
    _WRITER.write(level, sentence, fields)


def log_each(sentence: str, of_each: Iterable[Fields], level: int = INFO) -> None:
    """Log the same sentence once for each set of fields."""
    _WRITER.write_all(level, sentence, of_each)


def log_exception(sentence: str, error: BaseException) -> None:
    """Log an unexpected exception."""
    _WRITER.write(ERROR, sentence, _exception(error))


class LibraryLogHandler(logging.Handler):
    """Write the log records of libraries: the logger's name and the fixed sentence.

    Their arguments are left out: asyncio quotes exceptions, HTTP libraries quote headers. Our own
    server logs with `extra={"fields": …}`, which are written unchanged.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as one of our lines."""
        own_fields = getattr(record, "fields", None)
        if own_fields is not None:
            _WRITER.write(record.levelno, str(record.msg), own_fields)
            return
        error = record.exc_info[1] if record.exc_info else None
        fields = _exception(error) if error else {}
        sentence = str(record.msg).partition("\n")[0]
        _WRITER.write(record.levelno, sentence, {"logger": record.name, **fields})
