"""Conversations that would fill the window many times over."""

from tests.support.fake_model import fake_model
from tests.support.summary_model import SummaryModel
from tools.engine.client.asking import asking, asking_through_the_proxy
from tools.engine.client.conversing import Run, converse
from tools.engine.client.talk import Talk
from tools.engine.findings import Finding, at_least, below, none_of, told
from tools.engine.serving import WINDOW, Engine

TURNS = 200


async def without_the_proxy(engine: Engine) -> list[Finding]:
    """Talk to the engine itself until it refuses."""
    async with asking(engine.url, engine.model) as asker:
        run = await converse(asker, Talk(3).turns(40))
    refused = next(n for n, answer in enumerate(run.answers, 1) if answer.status != 200)
    return [told("the same conversation without the proxy: refused from turn", refused)]


async def with_a_summary_model(engine: Engine) -> list[Finding]:
    """Talk for long; summaries are written by a model that can."""
    writer = SummaryModel()
    before = await engine.refusals()
    async with (
        fake_model(writer) as model,
        asking_through_the_proxy(
            engine, SUMMARY_BASE_URL=f"{model.url}", SUMMARY_MODEL="fake"
        ) as asker,
    ):
        run = await converse(asker, Talk(3).turns(TURNS))
    refusals = await engine.refusals() - before
    return [
        *_told_of(run, f"{TURNS} turns, summaries by a second model", refusals),
        told("… summaries written", len(writer.summaries)),
        below("… counting error, p95", run.counting_error, 0.03),
    ]


async def with_its_own_summaries(engine: Engine) -> list[Finding]:
    """Talk for long; the random model's summaries are nonsense and must not be used."""
    before = await engine.refusals()
    async with asking_through_the_proxy(engine, SUMMARY_MAX_TOKENS="96") as asker:
        run = await converse(asker, Talk(4).turns(TURNS))
    refusals = await engine.refusals() - before
    title = f"{TURNS} turns, summaries by the random model itself (all refused, notes used)"
    return [
        *_told_of(run, title, refusals),
        below("… counting error, p95", run.counting_error, 0.03),
    ]


def _told_of(run: Run, title: str, refusals: float) -> list[Finding]:
    return [
        none_of(f"{title}: errors seen by the client", len(run.errors)),
        at_least("… times that history was folded", len(run.breaks), TURNS / 20),
        told("… prompts that the engine refused and the proxy sent again", f"{refusals:g}"),
        told("… largest prompt", f"{run.largest_prompt} of {WINDOW - 1} tokens"),
    ]
