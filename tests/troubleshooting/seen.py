"""What a user sees of a failure: the answer and the log, without what differs in every run."""

import io
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from chat_proxy.telemetry.logs import configure_logging
from tests.support.command import OF_THE_MACHINE, Ended
from tests.support.live import RawAnswer

REQUEST_ID = "7f3a"
HEADERS = ("retry-after", "x-chat-proxy-unfit")
"""The headers that say more than the body."""

_CLOCK = re.compile(r"^\d\d:\d\d:\d\d ")
_SHOWN = re.compile(r"^(warning|error) |^info    (\d{3}|---) ")
_SAME = (
    (re.compile(r"\b\d+ ms\b"), "12 ms"),
    (re.compile(r"\b\d+\.\d s\b"), "1.2 s"),
    (re.compile(r" (proxy|upstream|summary_wait)_ms=[\d.]+"), ""),
    (re.compile(r"\b\d{1,2} tokens\b"), "10 tokens"),
    (re.compile(r"\b10,\d{3}\b"), "10,400"),
    (re.compile(r"\b(6,9|7,0)\d\d\b"), "7,000"),
    (re.compile(r"\(summary [\d.]+\)"), "(summary 1.1)"),
    (re.compile(r" (request_id|bytes_in|bytes_out|window_source|prompt_tokens)=\S+"), ""),
    (re.compile(r"redis://127\.0\.0\.1:1/"), "redis://redis:6379/"),
    (re.compile(r"127\.0\.0\.1:(?!1/)\d+"), "127.0.0.1:8000"),
    (re.compile(r"127\.0\.0\.1:1/"), "127.0.0.1:8000/"),
    (re.compile(r"(/[\w.-]+)+/chat-proxy-troubles-\w+"), "/srv/chat-proxy"),
    (re.compile(r"retry-after: \d+"), "retry-after: 30"),
)


@dataclass
class Seen:
    """The lines that the client gets, and those in the proxy's log or terminal."""

    client: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)


def client_lines(answer: RawAnswer) -> list[str]:
    """Return an answer as status, telling headers and error."""
    told = [f"{name}: {answer.headers[name]}" for name in HEADERS if name in answer.headers]
    body = json.dumps(json.loads(answer.body), ensure_ascii=False)
    return [same(line) for line in (f"HTTP {answer.status}", *told, body)]


def log_lines(text: str) -> list[str]:
    """Return the lines about requests and trouble, each once, without their times."""
    told = (it for it in text.splitlines() if not any(of in it for of in OF_THE_MACHINE))
    lines = [same(_CLOCK.sub("", line)) for line in told]
    return list(dict.fromkeys(line for line in lines if _SHOWN.match(line)))


def terminal_lines(ended: Ended) -> list[str]:
    """Return what a command wrote to its terminal, and its exit code."""
    lines = [same(line) for line in (ended.out + ended.err).splitlines()]
    return [*lines, f"(exit code {ended.code})"]


def same(line: str) -> str:
    """Return a line with the same times, ports and folders in every run."""
    for pattern, instead in _SAME:
        line = pattern.sub(instead, line)
    return line.rstrip()


@contextmanager
def readable_log() -> Iterator[io.StringIO]:
    """Write the log as text to a stream until the block ends."""
    stream = io.StringIO()
    configure_logging("info", "text", stream)
    try:
        yield stream
    finally:
        configure_logging("error", "json", sys.stderr)
