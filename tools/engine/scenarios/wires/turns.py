"""Long conversations by each of the three APIs, with tool calls, streamed and whole answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.engine.client.journal import Journal, desk_before
from tools.engine.client.talk import Talk
from tools.engine.client.wires import FORMS, Messages, WireForm
from tools.engine.findings import Finding, at_least, below, none_of, percentile, told
from tools.engine.serving import WINDOW, Engine
from tools.small_model.exchanges import in_a_row
from tools.small_model.figures import facts_in
from tools.small_model.story import FACTS, SYSTEM, USER

TURNS = 60
WORST_COUNT = 0.05
LEAST_FOLDS = 2


@dataclass(frozen=True)
class WireTurns:
    """The same conversation by some APIs, each before a proxy that knows nothing yet."""

    max_tokens: int
    forms: tuple[WireForm, ...] = FORMS
    can_summarise: bool = False
    """Whether the model's answers are words; else words take their place in the history."""
    __name__ = "conversations by three APIs"

    async def __call__(self, engine: Engine) -> list[Finding]:
        """Hold it; return each figure for the three APIs beside each other."""
        journals = [await self._held(engine, form) for form in self.forms]
        return side_by_side([_findings(journal) for journal in journals])

    async def _held(self, engine: Engine, form: WireForm) -> Journal:
        settings = {} if self.can_summarise else {"SUMMARY_MAX_TOKENS": "96"}
        async with desk_before(engine, form, settings, by_transcript=self.can_summarise) as desk:
            words = None if self.can_summarise else Talk(400)
            return await desk.converse(turns(), SYSTEM, max_tokens=self.max_tokens, words=words)


def turns() -> Iterator[Messages]:
    """Yield what the user adds: a story with facts, and every fourth time a tool's work."""
    talk, told_so_far = Talk(30), iter(USER)
    for turn in range(TURNS):
        text = None if turn % 4 == 3 else next(told_so_far, None)
        if text is not None:
            yield [{"role": "user", "content": text}]
        else:
            yield talk.step() if turn % 4 == 3 else talk.question()


def _findings(journal: Journal) -> list[Finding]:
    run = journal.run
    wanted = f"{WINDOW} (discovery)"
    folds = [it for it in run.answers if it.compaction in ("built", "reused")]
    kept = facts_in(journal.last_prompt.texts)
    return [
        none_of(f"{TURNS} turns, every fourth with a tool call: errors seen by the client",
                len(run.errors)),
        Finding("… window that the proxy knows", journal.known_window, wanted,
                journal.known_window == wanted),
        at_least("… times that history was folded", len(run.breaks), LEAST_FOLDS),
        told("… requests that were sent folded", len(folds)),
        below("… counting error, p95", run.counting_error, WORST_COUNT),
        told("… prompts that the engine refused", journal.refusals),
        told("… answers after a replay", run.replays),
        told("… largest prompt", run.largest_prompt),
        told(f"… facts of the user in the last prompt, of {len(FACTS)}", len(kept)),
        told("… served from the engine's prefix cache, between folds",
             f"{run.cached_share:.0%}"),
        *_waits(journal),
        *_summaries(journal),
    ]  # fmt: skip


def _waits(journal: Journal) -> Iterator[Finding]:
    shares = (0.5, 0.95, 1.0)
    added = (f"{percentile(journal.seconds_added, share):.2f}" for share in shares)
    yield told(
        "… seconds that the proxy added to a request: half of them, p95, longest", ", ".join(added)
    )


def _summaries(journal: Journal) -> Iterator[Finding]:
    asked = journal.summaries
    yield told("… questions for a summary", in_a_row(it.style for it in asked))
    yield told("… by", in_a_row(it.form.name for it in asked))
    yield told("… why their answers ended", in_a_row(sorted(it.end for it in asked)))
    results = journal.metrics.by_label("summaries", "result")
    reasons = journal.metrics.by_label("summary_fail", "reason")
    failed = ", ".join(f"{name} {number}" for name, number in sorted(reasons.items()))
    yield told("… summaries written, and why others were not",
               f"{results.get('written', 0)}; {failed or 'none'}")  # fmt: skip


def side_by_side(columns: Sequence[Sequence[Finding]]) -> list[Finding]:
    """Return the same figure of several runs as one finding, which holds if all do."""
    return [
        Finding(
            same[0].what,
            " · ".join(finding.figure for finding in same),
            same[0].wanted,
            all(finding.holds for finding in same),
        )
        for same in zip(*columns, strict=True)
    ]
