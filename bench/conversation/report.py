"""The page and its plots."""

from collections.abc import Iterator, Sequence

from bench.chart import Chart
from bench.conversation.replay import Outcome
from bench.conversation.systems import CHAT_PROXY, UNLIMITED
from bench.conversation.verdict import losses, pairs, same_requests

_COLUMNS = (
    "session",
    "system",
    "refused",
    "tokens sent",
    "from cache",
    "side-queries",
    "billed",
    "billed per answer",
    "needles, mean",
    "user's / found",
    "at the end",
    "broken pairs",
)
_INTRODUCTION = """\
# What whole conversations cost, and what they remember

Written by `python -m bench.conversation --seed {seed}` (`--quick` for some minutes' worth).

Made-up sessions of a coding agent (system prompt and tools of about 2,900 tokens, a user who
speaks every 14 steps, tool results from a line to some thousand tokens) and of a chat are replayed
request by request against a scripted model. It counts with o200k, refuses what is longer than its
window as vLLM does, and writes summaries without understanding: the first sentences of messages,
evenly thinned to 1,200 tokens.

* **refused**: requests without an answer. After five in a row the rest counts as refused: a
  history only grows.
* **from cache**: what a prefix cache with blocks of 16 tokens and no end serves.
* **billed**: tokens read at 1, from the cache at 0.1; side-queries with what they write included.
* **needles**: words that the user said or a tool found, each nowhere else in the session. The share
  of those planted so far that is in the prompt, asked for ten times; a refused request has none.
  A finding is told by the assistant at once; what only tools show is forgotten more often.
* **broken pairs**: tool calls without result and results without call, per request.
* *no proxy, no limit* is no competitor: it is what the session would cost in an endless window.
"""
_HEADROOM_NOTE = """\
headroom runs as its users start it, in its modes `cache` (the default) and `token`, with its rate
limit off. Its machine-learned compressor (Kompress) is a download from a model hub and was not
there; what is built in was, and these made-up texts repeat themselves less than real logs do: both
count against it here. Sent turn by turn, its two modes come to the same; where a history arrives
at once they differ. To tell it the window changed nothing that was sent."""
_VERDICT_NOTE = """\
The verdict adds up all sessions, so the largest weigh most. Who is refused early has answered only
the short beginning of a session, and is billed less per answer for it. Before that refusal
chat-proxy has paid for a compaction whose use comes later; where it was behind then is listed."""


def page(outcomes: Sequence[Outcome], seed: int) -> str:
    """Return the page."""
    lines = [_INTRODUCTION.format(seed=seed), *_table(outcomes), ""]
    if any(it.system.startswith("headroom") for it in outcomes):
        lines += [_HEADROOM_NOTE, ""]
    lines += ["## On the same requests", "", *_same_requests(outcomes), ""]
    lines += ["![billed](conversation-billed.svg)", "![recall](conversation-recall.svg)", ""]
    lines += ["## Verdict", "", _VERDICT_NOTE, "", *_verdict(outcomes)]
    return "\n".join([*lines, ""])


def charts(outcomes: Sequence[Outcome]) -> dict[str, Chart]:
    """Return the plots by their names: the largest agent session as it grows."""
    largest = max((it.window for it in outcomes if it.kind == "agent"), default=0)
    chosen = [it for it in outcomes if it.kind == "agent" and it.window == largest]
    if not chosen:
        return {}
    name = chosen[0].session
    bills = {it.system: list(_bill(it)) for it in chosen}
    return {
        "conversation-billed": Chart(
            f"Tokens billed so far ({name})", "request", "tokens, cached ones at 0.1", bills
        ),
        "conversation-recall": Chart(
            f"Needles in the prompt ({name})",
            "share of the session, %",
            "%, at least 1",
            {it.system: list(_recalled(it)) for it in chosen},
        ),
    }


def _bill(outcome: Outcome) -> Iterator[tuple[float, float]]:
    """Yield the bill along the session, up to the first refusal."""
    last = outcome.answered_at_first
    for number in sorted({*range(10, last, 10), last} - {0}):
        yield number, outcome.billed_until(number)


def _recalled(outcome: Outcome) -> Iterator[tuple[float, float]]:
    for number, share in enumerate(outcome.recalls, start=1):
        if share is not None:
            yield number * 100 / len(outcome.recalls), max(1.0, 100 * share)


def _table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield f"| {' | '.join(_COLUMNS)} |"
    yield f"|{'---|' * len(_COLUMNS)}"
    for it in outcomes:
        cells = (
            it.session,
            f"**{it.system}**" if it.system == CHAT_PROXY else it.system,
            f"{it.failed} of {it.requests}",
            f"{it.sent:,}",
            f"{it.cached_share:.1%}",
            f"{it.side_tokens:,}",
            f"{it.total_billed:,.0f}",
            f"{it.billed_per_answer:,.0f}",
            f"{it.recall:.0%}",
            f"{_percent(it.user_recalls)} / {_percent(it.found_recalls)}",
            f"{it.last_recall:.0%}",
            f"{it.broken_pairs:.2f}",
        )
        yield f"| {' | '.join(cells)} |"


def _percent(shares: Sequence[float | None]) -> str:
    known = [share for share in shares if share is not None]
    return f"{sum(known) / len(known):.0%}" if known else "-"


def _same_requests(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a table of both bills for what the other system answered before its first refusal."""
    yield "What both were billed for the requests that the other answered before its first refusal."
    yield ""
    yield "| session | against | requests | chat-proxy | the other | chat-proxy costs |"
    yield "|---|---|---|---|---|---|"
    for system in dict.fromkeys(it.system for it in outcomes if it.system != CHAT_PROXY):
        for ours, theirs in pairs(system, outcomes):
            own, other = same_requests(ours, theirs)
            yield (
                f"| {ours.session} | {system} | {theirs.answered_at_first} | {own:,.0f} | "
                f"{other:,.0f} | {own / max(1.0, other):.0%} |"
            )


def _verdict(outcomes: Sequence[Outcome]) -> Iterator[str]:
    lost = losses(outcomes)
    for sentence in lost:
        yield f"* **lost**: {sentence}"
    if not lost:
        yield "* Summed over all sessions nobody is cheaper on the same requests."
        yield "* In no session does anybody remember more."
    yield from _behind(outcomes)
    for ours, theirs in pairs(UNLIMITED, outcomes):
        share = ours.total_billed / theirs.total_billed
        yield f"* {ours.session}: chat-proxy bills {share:.0%} of what an endless window would."


def _behind(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield where another was cheaper in a single session, before it was first refused."""
    for system in dict.fromkeys(it.system for it in outcomes if it.system != CHAT_PROXY):
        for ours, theirs in pairs(system, outcomes):
            own, other = same_requests(ours, theirs)
            if own > other:
                yield (
                    f"* {ours.session}: until its first refusal, after {theirs.answered_at_first} "
                    f"of {theirs.requests} requests, {system} was {1 - other / own:.0%} cheaper."
                )
