"""The tables of what was lost."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from bench.conversation.loss.facts import COUNTS, TOOL_ONLY, Kind
from bench.conversation.loss.replay import Outcome

INTRODUCTION = """\
# What folds lose

Written by `python -m bench.conversation.loss --write` (`--quick` for a minute's worth).

A made-up session of a coding agent, with chat and images in it, has 200 facts of eight kinds, each
with a key that stands nowhere else, in its first 25 turns; then the work goes on, with test
failures, numbers and settings that nobody asks for. A fact is kept if its key is in the prompt that
the model got, asked for at the first fold that has its message behind it, at the third and at the
tenth. A fold is a prompt that shows less of the history at its own place than any prompt before. An
image would hide all turns before it by a rule of its own; that rule is off here.

* **good**: a summary model that keeps 95 % of the facts that it is shown and carries 97 % of what
  the summary before had, each time, as long as it has room.
* **weak**: keeps 40 %, carries 80 %, writes at most 300 tokens and leaves out a section or two.
* **none**: every request for a summary is answered with an error.
* **transcript**: another model than the one that answers is configured for summaries. It has no
  prompt in its cache to ride on, and is shown the conversation as a text.
* **recall**: `CHAT_PROXY_RECALL_ENABLED=true`, and a model that searches once for the words of each
  fact that its prompt does not have. *Tokens of searches* is what the results added to prompts.
* **own summary**: no proxy. The agent itself asks the same model for a summary of all it has at
  80 % of the usable window, and goes on with its instructions, that summary and the last turn.
* **drop oldest**: no proxy, the oldest messages are dropped; asked at the same requests as the
  first column's.
* **unseen**: of the tool output that is no longer in the last prompt, the share of characters that
  no summariser was shown (whole lines of more than 20 characters).
* **billed**: tokens read at 1, from the cache at 0.1; side-queries with what they write included.
"""


def page(outcomes: Sequence[Outcome], folds: Sequence[int]) -> str:
    """Return the tables, one pair for each window and length of results."""
    sizes = dict.fromkeys((it.window, it.result_chars) for it in outcomes)
    return "\n".join(line for size in sizes for line in _tables(size, outcomes, folds))


def cell(outcome: Outcome, folds: int, kinds: Sequence[Kind]) -> str:
    """Return how many facts of these kinds were there, and of how many, if not all were asked."""
    kept = sum(outcome.kept.get(folds, Counter())[kind] for kind in kinds)
    asked = sum(outcome.asked.get(folds, Counter())[kind] for kind in kinds)
    if asked == sum(COUNTS[kind] for kind in kinds):
        return str(kept)
    return f"{kept} of {asked}" if asked else "-"


def _tables(
    size: tuple[int, int], outcomes: Sequence[Outcome], folds: Sequence[int]
) -> Iterator[str]:
    window, chars = size
    own = [it for it in outcomes if (it.window, it.result_chars) == size]
    yield f"## Window {window:,}, results of {chars:,} characters"
    yield ""
    yield f"Facts in the prompt after {_listed(folds)} folds."
    yield ""
    yield from _facts(own, folds)
    yield ""
    yield from _costs(own)
    yield ""


def _listed(values: Sequence[object]) -> str:
    return " / ".join(map(str, values))


def _facts(outcomes: Sequence[Outcome], folds: Sequence[int]) -> Iterator[str]:
    yield _row("kind", "facts", *(it.system for it in outcomes))
    yield f"|{'---|' * (len(outcomes) + 2)}"
    rows: list[tuple[str, tuple[Kind, ...]]] = [(kind, (kind,)) for kind in COUNTS]
    rows += [("**only in tool output**", TOOL_ONLY), ("**all**", tuple(COUNTS))]
    for name, kinds in rows:
        cells = [_listed([cell(it, number, kinds) for number in folds]) for it in outcomes]
        yield _row(name, str(sum(COUNTS[kind] for kind in kinds)), *cells)


def _costs(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield _row("", *(it.system for it in outcomes))
    yield f"|{'---|' * (len(outcomes) + 1)}"
    rows: tuple[tuple[str, Callable[[Outcome], str]], ...] = (
        ("requests", lambda it: f"{it.requests}"),
        ("refused", lambda it: f"{it.refused}"),
        ("side-queries", lambda it: f"{it.side_queries}"),
        ("billed", lambda it: f"{it.billed:,.0f}"),
        ("billed per request", lambda it: f"{it.billed / max(1, it.requests):,.0f}"),
        ("last prompt, tokens", lambda it: f"{it.last_tokens:,}"),
        ("unseen", lambda it: f"{it.unseen:.0%}"),
        ("searches", lambda it: f"{it.searches}"),
        ("tokens of searches", lambda it: f"{it.recall_tokens:,}"),
    )
    for name, cell in rows:
        yield _row(name, *map(cell, outcomes))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
