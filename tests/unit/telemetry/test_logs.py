"""Log lines: one each, with nothing in them that was not meant for operators."""

import asyncio
import io
import json
import logging
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from chat_proxy.telemetry.logs import (
    ATOMIC_BYTES,
    ERROR,
    MAX_WAITING,
    WARNING,
    configure_logging,
    json_head,
    json_line,
    log,
    log_each,
    log_exception,
)
from chat_proxy.telemetry.text_lines import text_head, text_line
from tests.support.clock import own_time


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where this test's log goes; afterwards all is as it was."""
    kept = io.StringIO()
    yield kept
    configure_logging("error", "json", sys.stderr)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_a_json_object(stream: io.StringIO) -> None:
    configure_logging("info", "json", stream)

    log("request", status=200, model="qwen", at=["a.py:1"])

    [line] = lines(stream)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "message": "request",
        "status": 200,
        "model": "qwen",
        "at": ["a.py:1"],
    }


def test_time_is_utc_with_milliseconds() -> None:
    line = json.loads(json_line(json_head(1_700_000_000.5, "info", "x"), {}))

    assert line["time"] == "2023-11-14T22:13:20.500Z"


def test_text_is_for_people(stream: io.StringIO) -> None:
    configure_logging("info", "text", stream)

    log("request", WARNING, status=200, code="", model="a\nb", phase="stream")

    line = stream.getvalue()
    assert line.endswith("warning request status=200 model=a\\nb phase=stream\n")
    assert line.count("\n") == 1


@pytest.mark.parametrize(("is_terminal", "is_json"), [(True, False), (False, True)])
def test_auto_is_text_on_a_terminal_and_json_elsewhere(is_terminal: bool, is_json: bool) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal  # type: ignore[method-assign]
    configure_logging("info", "auto", stream)
    log("hello")
    configure_logging("error", "json", sys.stderr)

    assert stream.getvalue().startswith("{") == is_json


@pytest.mark.parametrize(
    ("level", "count"), [("debug", 3), ("info", 3), ("warning", 2), ("error", 1)]
)
def test_what_is_less_important_is_not_written(level: str, count: int, stream: io.StringIO) -> None:
    configure_logging(level, "json", stream)

    log("one")
    log("two", WARNING)
    log("three", ERROR)

    assert len(lines(stream)) == count


def nasty_strings(count: int) -> Iterator[str]:
    """Strings made of what breaks lines, terminals and parsers."""
    random.seed(7)
    pieces = ["\n", "\r", "\t", "\0", "\x1b[31m", "\x7f", "\x85", "\x9b2J", "\u2028", "\u2029"]
    pieces += ["\u202e", "\ud83d", "\ufeff", "\U0001f600", '"', "\\", "}", "{", "a", "ü"]
    for _ in range(count):
        yield "".join(random.choices(pieces, k=random.randint(1, 12)))


@pytest.mark.parametrize(("head", "form"), [(json_head, json_line), (text_head, text_line)])
def test_a_line_stays_one_line_whatever_is_in_it(head: Any, form: Any) -> None:
    """F12: 2,000 values, no control character in any line."""
    for value in nasty_strings(2_000):
        line = form(head(0.0, "info", "request"), {"model": value, "request_id": value})

        assert line.endswith("\n")
        assert line[:-1].isprintable()
        if form is json_line:
            assert json.loads(line)["model"] == value


class Pieces(io.StringIO):
    """Remembers what each write brought."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    def write(self, text: str) -> int:
        self.written.append(text)
        return super().write(text)


def test_many_lines_go_in_few_pieces_that_a_pipe_takes_whole(stream: io.StringIO) -> None:
    """Several workers share one pipe, and larger pieces would be torn."""
    pieces = Pieces()
    configure_logging("info", "json", pieces)

    log_each("request", [{"number": number, "model": "m" * 400} for number in range(50)])

    assert [line["number"] for line in lines(pieces)] == list(range(50))
    assert all(piece.endswith("\n") and len(piece) <= ATOMIC_BYTES for piece in pieces.written)
    assert len(pieces.written) < 10


def test_a_line_that_cannot_be_written_costs_the_others_nothing(stream: io.StringIO) -> None:
    configure_logging("info", "json", stream)

    class Unspeakable:
        def __str__(self) -> str:
            raise ValueError

    log_each("request", [{"number": 1}, {"number": Unspeakable()}, {"number": 3}])

    assert [line["number"] for line in lines(stream)] == [1, 3]


def test_an_exception_is_told_without_its_text(stream: io.StringIO) -> None:
    """F13."""
    configure_logging("info", "json", stream)
    try:
        int("sk-canary")
    except ValueError as error:
        log_exception("it failed", error)

    [line] = lines(stream)
    assert (line["level"], line["exception"]) == ("error", "ValueError")
    assert line["at"][-1].startswith("test_logs.py:")
    assert "canary" not in stream.getvalue()


def test_libraries_are_heard_without_what_they_fill_in(stream: io.StringIO) -> None:
    """F13: they quote headers, addresses and exceptions."""
    configure_logging("debug", "json", stream)
    log = logging.getLogger("some.library")

    log.debug("sent headers %s", {"authorization": "sk-canary"})
    log.warning("wrong number of arguments %s %s", "sk-canary")  # noqa: PLE1206 - a library's mistake
    log.error("It failed\nfuture: <Task exception=ValueError('sk-canary')>")
    try:
        int("sk-canary")
    except ValueError:
        log.exception("It failed")

    said = lines(stream)
    assert [line["message"] for line in said] == [
        "sent headers %s",
        "wrong number of arguments %s %s",
        "It failed",
        "It failed",
    ]
    assert said[3]["exception"] == "ValueError"
    assert {line["logger"] for line in said} == {"some.library"}
    assert "canary" not in stream.getvalue()


def test_an_exception_that_nobody_awaits_keeps_its_text_to_itself(
    stream: io.StringIO,
) -> None:
    """F13: asyncio's own report quotes the exception."""
    configure_logging("debug", "json", stream)

    loop = asyncio.new_event_loop()
    loop.call_exception_handler(
        {"message": "Task exception was never retrieved", "exception": ValueError("sk-canary")}
    )
    loop.close()

    assert [line["message"] for line in lines(stream)] == ["Task exception was never retrieved"]
    assert "canary" not in stream.getvalue()


@pytest.mark.parametrize("error", [OSError(28, "No space left"), ValueError("closed"), TypeError()])
def test_a_broken_stream_breaks_nothing_and_is_tried_again(
    error: Exception, stream: io.StringIO
) -> None:
    broken = [True]
    write = stream.write

    def try_to_write(text: str) -> int:
        if broken[0]:
            raise error
        return write(text)

    stream.write = try_to_write  # type: ignore[method-assign]
    configure_logging("info", "json", stream)

    log("lost")
    broken[0] = False
    log("written")

    assert [line["message"] for line in lines(stream)] == ["written"]


def test_a_value_that_cannot_be_told_breaks_nothing(stream: io.StringIO) -> None:
    class Untold:
        def __str__(self) -> str:
            raise RuntimeError

    configure_logging("info", "json", stream)

    log("lost", value=Untold())
    log("written")

    assert [line["message"] for line in lines(stream)] == ["written"]


def test_our_own_sentence_stays_as_it_is_and_only_fields_are_escaped() -> None:
    line = json_line(json_head(0, "info", "8 → 2 messages"), {"model": "→\u202e"})

    assert "8 → 2 messages" in line
    assert line.count("→") == 1
    assert json.loads(line)["model"] == "→\u202e"


def test_a_log_that_nobody_reads_is_bounded_and_says_what_it_dropped() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        configure_logging("info", "json", stream)
        began = own_time()
        for number in range(5_000):
            log("one of many", number=number)
        seconds = own_time() - began
        configure_logging("error", "json", sys.stderr)
    with os.fdopen(reader, "rb") as said:
        told = [json.loads(line) for line in said]

    numbers = [line["number"] for line in told if line["message"] == "one of many"]
    dropped = [line["lines"] for line in told if line["message"] == "log lines were dropped"]
    assert seconds < 2
    assert MAX_WAITING <= len(numbers) < 5_000
    assert numbers == sorted(set(numbers))
    assert sum(dropped) == 5_000 - len(numbers)


def test_the_last_lines_are_written_before_the_process_ends() -> None:
    code = "from chat_proxy.telemetry.logs import *; configure_logging('info', 'json'); log('last')"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert json.loads(ended.stderr)["message"] == "last"


def test_a_process_ends_although_nobody_reads_its_log() -> None:
    code = (
        "from chat_proxy.telemetry.logs import *; configure_logging('info', 'json')\n"
        "for number in range(5_000): log('one of many', number=number)"
    )
    reader, writer = os.pipe()

    ended = subprocess.run([sys.executable, "-c", code], stderr=writer, timeout=200, check=False)

    os.close(writer)
    os.close(reader)
    assert ended.returncode == 0


def test_a_descriptor_that_does_not_block_is_waited_for() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with os.fdopen(writer, "w") as stream:
        configure_logging("info", "json", stream)
        for number in range(1_000):
            log("one of many", number=number)
        configure_logging("error", "json", sys.stderr)
    with os.fdopen(reader, "rb") as said:
        numbers = [json.loads(line)["number"] for line in said]

    assert numbers == list(range(1_000))
