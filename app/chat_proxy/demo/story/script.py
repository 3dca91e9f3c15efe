"""The user messages and tool results of the story, the same in every run."""

import struct
import zlib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass

SYSTEM = (
    "You are a careful engineer who looks after a web shop. "
    "Never restart the database without asking. Answer briefly."
)
TOOL_NAME = "read_log"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": TOOL_NAME,
            "description": "Return the lines of a log file.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "required": ["path"],
            },
        },
    }
]
WINDOW_PER_LINE = 200
LARGE = 10
GREY = 8


@dataclass(frozen=True)
class Turn:
    """A user message with an optional image, its label in the table, and the lines of its log."""

    short: str
    says: str
    log_lines: int = 0
    shows: int = 0
    path: str = ""

    def message(self) -> dict[str, object]:
        """Return the user message."""
        if not self.shows:
            return {"role": "user", "content": self.says}
        picture = {"type": "image_url", "image_url": {"url": png_url(self.shows * GREY)}}
        return {"role": "user", "content": [{"type": "text", "text": self.says}, picture]}


def turns(window: int) -> Iterator[Turn]:
    """Yield the turns of a conversation that is several windows long."""
    lines = max(2, window // WINDOW_PER_LINE)
    yield Turn("the task", "The checkout of our shop is slow since Monday. It must stay online.")
    yield _reading("web/frontend.log", lines)
    yield _reading("shop/checkout.log", lines)
    yield _reading("shop/payment.log", lines * LARGE)
    yield Turn("a decision", "We decided to keep version 4.2 because 4.3 failed on 12 % of orders.")
    yield _reading("db/slow_queries.log", lines)
    yield _reading("db/locks.log", lines)
    yield _reading("cache/evictions.log", lines)
    yield Turn("a question", "Which of these files shows requests over 800 ms?")
    yield _reading("queue/workers.log", lines)
    yield _reading("shop/orders.log", lines)
    yield Turn("a request", "Please write down the next steps for the team.")
    yield _reading("web/errors.log", lines * LARGE)
    yield Turn("a question", "What do the errors have in common?")
    yield _reading("db/replica.log", lines)
    yield _reading("mail/outbox.log", lines)
    yield Turn("an image", "This is the latency graph of the last hour.", shows=10)
    yield Turn("another image", "And this is the same graph after the index was added.", shows=20)
    yield Turn("a question about it", "Is the second graph better than the first?")


def _reading(path: str, lines: int) -> Turn:
    says = f'Call {TOOL_NAME} on "{path}" and tell me what you see there.'
    return Turn(f"read {path.rpartition('/')[2]}", says, log_lines=lines, path=path)


def plain_turns(window: int) -> Iterator[Turn]:
    """Yield the turns for a model that calls no tools and sees no images: logs are pasted."""
    lines = max(2, window // WINDOW_PER_LINE)
    for turn in turns(window):
        if turn.path:
            pasted = log_of(turn.path, min(lines, turn.log_lines))
            says = f"This is {turn.path}. What do you see there?\n\n{pasted}"
            yield Turn(turn.short, says)
        elif not turn.shows:
            yield turn


def log_of(path: str, lines: int) -> str:
    """Return the text of a log file with this number of lines."""
    return "\n".join(
        f"10:{line // 60 % 60:02}:{line % 60:02} {path} request {line} took {line * 37 % 900} ms"
        for line in range(lines)
    )


def png_url(shade: int, width: int = 512, height: int = 384) -> str:
    """Return a plain grey image as a data URL."""
    rows = (b"\0" + bytes([shade % 256]) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pieces = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    image = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in pieces)
    return f"data:image/png;base64,{b64encode(image).decode('ascii')}"


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)
