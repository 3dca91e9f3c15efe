"""The story's table: one line for each request, as it goes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

CLEAR_LINE = "\r\x1b[K"
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
WHAT_CHARACTERS = 24
HEADINGS = (
    f"{'turn':>4}  {'request':<{WHAT_CHARACTERS}} {'tokens':>7}    {'sent':>6}  "
    f"{'compaction':<11} {'saved':>7} {'ms':>6}  stages"
)


@dataclass(frozen=True)
class Told:
    """What the proxy says about one request in its answer's headers."""

    before: int
    after: int
    compaction: str
    stages: str

    @classmethod
    def by(cls, headers: Mapping[str, str]) -> "Told":
        """Read the headers; a count that is not there is 0."""
        return cls(
            int(headers.get("x-chat-proxy-tokens-before", "0")),
            int(headers.get("x-chat-proxy-tokens-after", "0")),
            headers.get("x-chat-proxy-compaction", "-"),
            "+".join(map(_short, headers.get("x-chat-proxy-stages", "").split(","))),
        )


def _short(stage: str) -> str:
    """Return a stage's name without what would make the line too long."""
    return stage.removesuffix("_tool_output").removesuffix("_history")


class Table:
    """A table that grows; on a terminal, running requests show and new stages stand out."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_live = out.isatty()
        self._requests = 0
        self._before = 0
        self._after = 0
        self._longest = 0
        self._stages = ""

    def begin(self, window: int) -> None:
        """Write the headings."""
        self._write(
            f"\nA long conversation goes through the proxy; the model's window is {window:,} "
            f"tokens:\n\n{HEADINGS}\n"
        )

    def waiting(self, turn: int, what: str) -> None:
        """Show which request is on its way."""
        if self._is_live:
            self._write(f"{self._head(turn, what)} ...")

    def answered(self, turn: int, what: str, told: Told, seconds: float) -> None:
        """Write a request's line."""
        self._requests += 1
        self._before += told.before
        self._after += told.after
        self._longest = max(self._longest, told.before)
        line = (
            f"{self._head(turn, what)} {told.before:>7,} -> {told.after:>6,}  "
            f"{told.compaction:<11} {self._before - self._after:>7,} {seconds * 1000:>6,.0f}  "
            f"{told.stages}"
        ).rstrip()
        is_news = told.stages not in ("", self._stages)
        self._stages = told.stages
        self.say(f"{BOLD}{line}{PLAIN}" if self._is_live and is_news else line)

    def end(self) -> None:
        """Write what all requests together come to."""
        share = (self._before - self._after) / max(1, self._before)
        self._write(
            f"\n{self._requests} requests: {self._before:,} tokens asked, {self._after:,} sent, "
            f"{share:.0%} saved; the longest had {self._longest:,} tokens.\n"
        )

    def say(self, line: str) -> None:
        """Write a line of its own, over the request that was waited for."""
        self._write(f"{CLEAR_LINE}{line}\n" if self._is_live else f"{line}\n")

    def _head(self, turn: int, what: str) -> str:
        return f"{turn:>4}  {what[:WHAT_CHARACTERS]:<{WHAT_CHARACTERS}}"

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
