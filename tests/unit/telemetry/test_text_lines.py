"""Readable log lines: a request in one glance, colours on a terminal only, never a client's own."""

import io
import re
import sys
from collections.abc import Iterator

import pytest

from chat_proxy.config.environment import wants_colours
from chat_proxy.telemetry.logs import configure_logging, log, log_each
from chat_proxy.telemetry.record import RequestRecord
from chat_proxy.telemetry.text_lines import coloured_head, text_head, text_line

CHAT = "/v1/chat/completions"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """A terminal for the log; afterwards all is as it was."""
    yield Terminal()
    configure_logging("error", "json", sys.stderr)


def finished(route: str = CHAT, method: str = "POST", **fields: object) -> RequestRecord:
    record = RequestRecord("abc", route, method, status=200, model="qwen3", tenant="anonymous")
    for name, value in fields.items():
        setattr(record, name, value)
    return record


def told(record: RequestRecord) -> str:
    """Return a request's line without its time and level."""
    line = text_line(text_head(0, "info", "request"), record.log_fields())
    return re.sub(r"^\d\d:\d\d:\d\d info    ", "", line)


def test_a_chat_is_told_in_one_glance() -> None:
    record = finished(
        tokens_before=4_278,
        tokens_after=2_051,
        compaction="built",
        seconds=20.5,
        summary_wait_seconds=13.2,
    )

    assert told(record) == (
        "200 POST chat qwen3 4,278→2,051 built 20.5 s (summary 13.2) request_id=abc\n"
    )


def test_a_small_request_is_short() -> None:
    record = finished(tokens_before=12, tokens_after=12, seconds=0.0851)

    assert told(record) == "200 POST chat qwen3 12 tokens 85 ms request_id=abc\n"


@pytest.mark.parametrize(
    ("route", "name"),
    [
        ("/v1/responses", "responses"),
        ("/v1/messages", "messages"),
        ("/v1/embeddings", "/v1/embeddings"),
    ],
)
def test_every_api_has_its_name(route: str, name: str) -> None:
    assert told(finished(route)).startswith(f"200 POST {name} qwen3 0 ms ")


def test_why_it_failed_stands_before_the_rest() -> None:
    record = finished(status=502, code="upstream_connect_error", model="", reason="It was away.")

    assert told(record) == (
        "502 POST chat 0 ms It was away. request_id=abc code=upstream_connect_error\n"
    )


def test_a_client_that_left_before_a_status_is_told_too() -> None:
    assert told(finished(status=0)).startswith("--- POST chat ")


def test_only_a_terminal_gets_colours_and_only_if_it_may(terminal: Terminal) -> None:
    lines = []
    for stream, colours in ((terminal, True), (Terminal(), False), (io.StringIO(), True)):
        configure_logging("info", "text", stream, colours=colours)
        log_each("request", [finished().log_fields()])
        lines.append(stream.getvalue())

    assert "\x1b[32m200\x1b[0m POST chat qwen3" in lines[0]
    assert "\x1b" not in lines[1] + lines[2]


@pytest.mark.parametrize(("status", "colour"), [(204, 32), (404, 33), (502, 31), (0, 31)])
def test_the_status_has_the_colour_of_its_class(status: int, colour: int) -> None:
    line = text_line(coloured_head(0, "info", "request"), finished(status=status).log_fields())

    assert f"\x1b[{colour}m{status or '---'}\x1b[0m" in line


def test_a_clients_control_characters_never_reach_the_terminal(terminal: Terminal) -> None:
    configure_logging("info", "text", terminal, colours=True)
    nasty = "a\x1b[2Jb\nc"

    log_each("request", [finished(model=nasty, reason=nasty, code=nasty).log_fields()])
    log(nasty, said=nasty)

    lines = terminal.getvalue()
    assert lines.count("\n") == 2
    assert "\x1b[2J" not in lines


def test_no_color_and_dumb_terminals_are_respected() -> None:
    assert wants_colours({"TERM": "xterm"})
    assert not wants_colours({"TERM": "xterm", "NO_COLOR": "1"})
    assert not wants_colours({"TERM": "dumb"})
