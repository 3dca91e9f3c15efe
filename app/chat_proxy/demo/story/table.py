"""The table that the story prints: one line for each request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TextIO

CLEAR_LINE = "\r\x1b[K"
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
WIDTH = 80
"""The narrowest terminal: no line is longer, so that none is wrapped."""
WHAT_CHARACTERS = 21
HEADINGS = (
    f"{'turn':>4} {'request':<{WHAT_CHARACTERS}} {'tokens':>7}    {'sent':>7} {'saved':>7} "
    f"{'time':>6} done"
)
SUMMARY = "summary"
WORDS = {
    "truncate_tool_output": "cut",
    "age_tool_output": "aged",
    "age_media": "media",
    "limit_vision_history": "vision",
    "strip_media": "strip",
}
LEGEND = """\
cut: long results are cut; aged: old ones are shortened; vision: turns before a
new image are left out; media: older images become notes; built, reused: older
messages are folded into a summary, a new one or the one that is there.
"""


@dataclass(frozen=True)
class Told:
    """What the response headers of the proxy report about one request."""

    before: int
    after: int
    done: tuple[str, ...]

    @classmethod
    def by(cls, headers: Mapping[str, str]) -> "Told":
        """Read the headers; a missing count is 0."""
        return cls(
            int(headers.get("x-chat-proxy-tokens-before", "0")),
            int(headers.get("x-chat-proxy-tokens-after", "0")),
            done_in(
                headers.get("x-chat-proxy-compaction", "-"),
                headers.get("x-chat-proxy-stages", "").split(","),
            ),
        )

    @property
    def saved(self) -> int:
        """The tokens of this request that the model did not get."""
        return self.before - self.after


def done_in(compaction: str, stages: Sequence[str]) -> tuple[str, ...]:
    """Return what was done in a few short words; the label says already that a summary was used."""
    words = [WORDS.get(stage, stage) for stage in stages if stage and stage != SUMMARY]
    has_label = compaction != "trimmed" or not words
    return (compaction, *words) if has_label else tuple(words)


def figure(number: int) -> str:
    """Return a number in at most seven characters."""
    return f"{number:,}" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def fitted(words: Sequence[str], width: int) -> str:
    """Join words; those that do not fit are left out, never cut."""
    line = "+".join(words)
    kept = len(words)
    while len(line) > width and kept:
        kept -= 1
        line = "+".join([*words[:kept], ".."])
    return line


class Table:
    """A growing table; a terminal also shows running requests, and new stages in bold."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_live = out.isatty()
        self._requests = 0
        self._before = 0
        self._after = 0
        self._longest = 0
        self._done: tuple[str, ...] = ()

    def begin(self, window: int) -> None:
        """Write the headings."""
        self._write(
            "\nA long conversation goes through the proxy; the model's window has "
            f"{window:,}\ntokens. Each line is one request:\n\n{HEADINGS}\n"
        )

    def waiting(self, turn: int, what: str) -> None:
        """Show the running request."""
        if self._is_live:
            self._write(f"{self._head(turn, what)} ...")

    def answered(self, turn: int, what: str, report: Told, seconds: float) -> None:
        """Write the line of a request.

        The counts are estimates that the proxy corrects as it learns. A chat that only grows has
        no fewer tokens than before, so a correction downwards does not show in either count.
        """
        corrected = max(0, self._longest - report.before)
        before, after = report.before + corrected, report.after + corrected
        report = replace(report, before=before, after=after)
        self._requests += 1
        self._before += report.before
        self._after += report.after
        self._longest = report.before
        line = (
            f"{self._head(turn, what)} {figure(report.before):>7} -> {figure(report.after):>7} "
            f"{figure(report.saved):>7} {seconds:>4.1f} s "
        )
        line += fitted(report.done, WIDTH - len(line))
        is_news = report.done not in (("none",), self._done)
        self._done = report.done
        self.say(f"{BOLD}{line}{PLAIN}" if self._is_live and is_news else line)

    def end(self) -> None:
        """Write the totals of all requests; the headings again, for those who see only the end."""
        saved = self._before - self._after
        self._write(
            f"{HEADINGS}\n\n{LEGEND}\n{self._requests} requests: {self._before:,} tokens received, "
            f"{self._after:,} sent.\nSaved in all: {saved:,} tokens, "
            f"{saved / max(1, self._before):.0%}; the longest request had {self._longest:,}.\n"
        )

    def say(self, line: str) -> None:
        """Write a line, replacing that of the running request."""
        self._write(f"{CLEAR_LINE}{line}\n" if self._is_live else f"{line}\n")

    def _head(self, turn: int, what: str) -> str:
        return f"{turn:>4} {what:<{WHAT_CHARACTERS}}"

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
