"""The page of a run: a table and a plot for each group and window, and what was to be shown."""

from collections.abc import Iterator, Mapping, Sequence

from bench.chart import Chart
from bench.quality.figures import Figures, Group, groups_of, verdicts
from bench.quality.replay import POINTS, Outcome
from bench.quality.systems import ENDLESS, OWN

INTRODUCTION = """\
# What stays known of recorded conversations

Written by `python -m bench.quality --data DIALOGUES --data TRAJECTORIES --limit 6 --write`. With
`--systems NAME` some systems are measured again, and the others keep their figures.

Recorded dialogues with questions (LoCoMo's format) and runs of an agent with tools (tau-bench's
format) are sent request by request, each answer as it was recorded. A question counts as known if
the prompt that the model got still has its evidence: at least half of the rare words of every
turn that is evidence (a word is rare if at most one turn in two hundred has it), or all of it
word for word. The prompt is looked at, no answer is judged. A refused request knows nothing.

Runs of agents have no questions of their own. There each message of the user with a number in it
and each call that changes something (its name and arguments) must stay known.

* **no proxy, endless window**: what everything would cost. No competitor.
* **drop oldest**: the client drops its oldest messages until the rest fills the whole window. It
  keeps no space for an answer; all others do.
* **own summary at 80 %**: the client asks for one summary of all that it has, and goes on with
  it.
* **headroom**: its proxy in mode `token`; its machine-learned compressor is a download and
  absent.
* **LiteLLM, compaction**: its `compact_20260112` on `/v1/messages`. It refuses a trigger below
  50,000 tokens (400: "must be at least 50000 tokens"), so it cannot act in these windows.
* **agentic-api, compaction**: the vLLM project's gateway, `context_management` of the Responses
  API at 80 % of the usable window, conversation kept by the gateway. It keeps every message of
  the user and replaces the rest by a summary.
* **chat-proxy**: as its users start it. The model for summaries is a stand-in that writes the
  densest sentences without filler words; *extractive model* writes whole sentences; with *no
  model* each request for a summary fails, and notes alone stand for what is folded. All systems
  that ask for a summary get it from the first of these stand-ins, at most an eighth of the window
  long.

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
    "waited",
    "side-queries",
    "tokens per answer",
    "billed per answer",
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
        yield from (_row(it, group) for it in group.figures.values())
        yield f"\n![known over the session]({_file(group)}.svg)\n"
        yield from (f"* {line}" for line in verdicts(group))
    yield ""


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
        if name != ENDLESS
    }
    x_label, y_label = "% of the session sent", "% of the questions with their evidence"
    return Chart(_title(group), x_label, y_label, lines, is_linear=True)
