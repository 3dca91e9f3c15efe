"""The table that the story prints: one line for each request."""

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
    """What the response headers of the proxy report about one request."""

    before: int
    after: int
    compaction: str
    stages: str

    @classmethod
    def by(cls, headers: Mapping[str, str]) -> "Told":
        """Read the headers; a missing count is 0."""
        return cls(
            int(headers.get("x-chat-proxy-tokens-before", "0")),
            int(headers.get("x-chat-proxy-tokens-after", "0")),
            headers.get("x-chat-proxy-compaction", "-"),
            "+".join(map(_short, headers.get("x-chat-proxy-stages", "").split(","))),
        )


def _short(stage: str) -> str:
    """Return the name of a stage without its long suffix."""
    return stage.removesuffix("_tool_output").removesuffix("_history")


class Table:
    """A growing table; a terminal also shows running requests, and new stages in bold."""

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
        """Show the running request."""
        if self._is_live:
            self._write(f"{self._head(turn, what)} ...")

    def answered(self, turn: int, what: str, report: Told, seconds: float) -> None:
        """Write the line of a request."""
        self._requests += 1
        self._before += report.before
        self._after += report.after
        self._longest = max(self._longest, report.before)
        line = (
            f"{self._head(turn, what)} {report.before:>7,} -> {report.after:>6,}  "
            f"{report.compaction:<11} {self._before - self._after:>7,} {seconds * 1000:>6,.0f}  "
            f"{report.stages}"
        ).rstrip()
        is_new_stage = report.stages not in ("", self._stages)
        self._stages = report.stages
        self.say(f"{BOLD}{line}{PLAIN}" if self._is_live and is_new_stage else line)

    def end(self) -> None:
        """Write the totals of all requests."""
        share = (self._before - self._after) / max(1, self._before)
        self._write(
            f"\n{self._requests} requests: {self._before:,} tokens received, {self._after:,} sent, "
            f"{share:.0%} saved; the longest had {self._longest:,} tokens.\n"
        )

    def say(self, line: str) -> None:
        """Write a line, replacing that of the running request."""
        self._write(f"{CLEAR_LINE}{line}\n" if self._is_live else f"{line}\n")

    def _head(self, turn: int, what: str) -> str:
        return f"{turn:>4}  {what[:WHAT_CHARACTERS]:<{WHAT_CHARACTERS}}"

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
