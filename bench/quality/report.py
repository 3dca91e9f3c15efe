"""The page of a run: a table and a plot for each group and window, and what was to be shown."""

from collections.abc import Iterator, Mapping, Sequence

from bench.chart import Chart
from bench.quality.figures import OTHER_THRESHOLDS, Figures, Group, groups_of, holds_both, verdicts
from bench.quality.replay import POINTS, Outcome
from bench.quality.systems import ENDLESS, OWN

INTRODUCTION = """\
# What stays known of recorded conversations

Written by `python -m bench.quality --data DIALOGUES --data TRAJECTORIES --write`. With
`--systems NAME` some systems are measured again, and the others keep their figures.

Recorded dialogues with questions (LoCoMo's format) and runs of an agent with tools (tau-bench's
format) are sent request by request, each answer as it was recorded. A question counts as known if
the prompt that the model got still has its evidence: at least half of the rare words of every
turn that is evidence (a word is rare if at most one turn in two hundred has it), or all of it
word for word. The prompt is looked at, no answer is judged. A refused request knows nothing.

Runs of agents have no questions of their own. There each message of the user with a number in it
and each call that changes something (its name and arguments) must stay known. Several runs are
joined to one session, as if one agent had served one customer after the other.

* **no proxy, endless window**: what everything would cost. No competitor.
* **drop oldest**: the client drops its oldest messages until the rest fills the whole window. It
  keeps no space for an answer; all others do.
* **own summary at 80 %**: the client asks for one summary of all that it has, and goes on with
  it.
* **headroom**: its proxy in mode `token`; its machine-learned compressor is a download and
  absent.
* **LiteLLM, compaction**: its `compact_20260112` on `/v1/messages`. It refuses a trigger below
  50,000 tokens (400: "must be at least 50000 tokens"), so it cannot act in these windows. The
  version is the newest that installs here: later ones need a `certifi` that PyPI did not have.
* **agentic-api, compaction**: the vLLM project's gateway, `context_management` of the Responses
  API at 80 % of the usable window, conversation kept by the gateway. It keeps every message of
  the user and replaces the rest by a summary.
* **chat-proxy**: as its users start it. The model for summaries is a stand-in that writes the
  densest sentences without filler words; *extractive model* writes whole sentences; with *no
  model* each request for a summary fails, and notes alone stand for what is folded. All systems
  that ask for a summary get it from the first of these stand-ins, at most an eighth of the window
  long.

**orphans**: calls without their result and results without their call, in all prompts.
**waited**: requests that reached the model only after a summary was answered; on a busy machine one
that nobody waited for may count too. **tokens**: all that was read and
what side-queries wrote, for each answered request; **billed**: the same with what a prefix cache
serves at a tenth. The data is not part of this repository.
"""

_COLUMNS = (
    "system",
    "known at the end",
    "x drop oldest",
    "mean over the second half",
    "x drop oldest",
    "word for word",
    "refused",
    "orphans",
    "waited",
    "side-queries",
    "tokens per answer",
    "billed per answer",
)
_BILL = (
    "system",
    "new text",
    "read again, at a tenth",
    "rewritten behind a break",
    "side-queries",
    "all",
    "breaks",
)
_TRADE = """\
`CHAT_PROXY_BUDGET_THRESHOLD` is the share of the usable window at which a prompt is compacted.
What is kept is read again with every request: more evidence costs more, whoever keeps it. Wanted
are 1.5 x what dropping the oldest keeps at 1.1 x the bill of the cheapest that refuses nothing."""
_TRADE_COLUMNS = (
    "threshold",
    "known at the end",
    "x drop oldest",
    "mean over the second half",
    "side-queries",
    "billed per answer",
    "x cheapest",
)


def page(outcomes: Sequence[Outcome], facts: Mapping[str, str], failures: Mapping[str, str]) -> str:
    """Return the whole page; `failures` are the systems that could not run, with the reason."""
    return "\n".join(_lines(outcomes, facts, failures))


def charts(outcomes: Sequence[Outcome]) -> dict[str, Chart]:
    """Return a plot for each group and window, by its file name."""
    return {_file(group): _chart(group) for group in groups_of(outcomes)}


def _lines(
    outcomes: Sequence[Outcome], facts: Mapping[str, str], failures: Mapping[str, str]
) -> Iterator[str]:
    yield INTRODUCTION
    yield "| run | |\n|---|---|"
    yield from (f"| {name} | {value} |" for name, value in facts.items())
    for name, reason in failures.items():
        yield f"\n**{name} could not run here**: `{reason}`"
    for group in groups_of(outcomes):
        yield f"\n## {_title(group)}\n"
        yield f"{group.sessions} sessions, {group.questions} questions at the end.\n"
        yield f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}"
        yield from (_row(it, group) for it in group.compared)
        yield f"\n![known over the session]({_file(group)}.svg)\n"
        yield from (f"* {line}" for line in verdicts(group))
        yield from _bills(group)
        yield from _thresholds(group)
    yield ""


def _bills(group: Group) -> Iterator[str]:
    """Yield what the bills are made of, of those who refuse nothing."""
    yield f"\nThe bill per answer, of those who refuse nothing:\n\n| {' | '.join(_BILL)} |"
    yield f"|{'---|' * len(_BILL)}"
    for it in group.compared:
        if not it.refused:
            bill = it.bill
            parts = (bill.fresh, bill.again, bill.rewritten, bill.asides, bill.total)
            cells = (f"{part:,.0f}" for part in parts)
            yield f"| {it.system} | {' | '.join(cells)} | {bill.breaks} |"


def _thresholds(group: Group) -> Iterator[str]:
    """Yield what other thresholds keep and cost."""
    cheapest = group.cheapest()
    if cheapest is None or not group.thresholds:
        return
    yield f"\n### What the threshold trades\n\n{_TRADE}\n\n| {' | '.join(_TRADE_COLUMNS)} |"
    yield f"|{'---|' * len(_TRADE_COLUMNS)}"
    for share, it in group.thresholds.items():
        cells = (
            f"{share}",
            f"{it.known():.1%}",
            _ratio(it.known(), group.base.known()),
            f"{it.mean_known:.1%}",
            f"{it.side_queries}",
            f"{it.billed:,.0f}",
            _ratio(it.billed, cheapest.billed),
        )
        yield f"| {' | '.join(cells)} |"
    both = [f"{share}" for share, it in group.thresholds.items() if holds_both(it, group)]
    yield f"\nThresholds that hold both: {', '.join(both) or 'none'}."


def _title(group: Group) -> str:
    return f"{group.name[0].upper()}{group.name[1:]}, window {group.window:,}"


def _file(group: Group) -> str:
    words = "".join(it if it.isalnum() else " " for it in group.name).split()
    return "-".join(["quality", *words, str(group.window)])


def _row(figures: Figures, group: Group) -> str:
    base = group.base
    name = f"**{figures.system}**" if figures.system in OWN else figures.system
    cells = (
        name,
        f"{figures.known():.1%}",
        _ratio(figures.known(), base.known()),
        f"{figures.mean_known:.1%}",
        _ratio(figures.mean_known, base.mean_known),
        f"{figures.verbatim:.1%}",
        f"{figures.refused} of {figures.requests}",
        f"{figures.orphans}",
        f"{figures.waited}",
        f"{figures.side_queries}",
        f"{figures.tokens:,.0f}",
        f"{figures.billed:,.0f}",
    )
    return f"| {' | '.join(cells)} |"


def _ratio(one: float, other: float) -> str:
    return f"{one / other:.2f}" if other else "-"


def _chart(group: Group) -> Chart:
    lines = {
        name: [(100 * share, 100 * it.known(point)) for point, share in enumerate(POINTS)]
        for name, it in group.figures.items()
        if name not in (ENDLESS, *OTHER_THRESHOLDS)
    }
    x_label, y_label = "% of the session sent", "% of the questions with their evidence"
    return Chart(_title(group), x_label, y_label, lines, is_linear=True)
