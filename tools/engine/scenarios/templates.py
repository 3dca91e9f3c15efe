"""A chat template that refuses whatever does not alternate."""

from tests.support.fake_model import fake_model
from tests.support.summary_model import SummaryModel
from tools.engine.client.asking import asking, asking_through_the_proxy
from tools.engine.client.conversing import Run, converse
from tools.engine.client.talk import SYSTEM, Talk
from tools.engine.findings import Finding, at_least, none_of, told
from tools.engine.serving import Engine

TURNS = 80


async def strict_template(engine: Engine) -> list[Finding]:
    """See that the template is strict, then talk long enough to be folded several times."""
    question = Talk(7).question()
    async with asking(engine.url, engine.model) as asker:
        late = await asker.ask([*question, SYSTEM])
        twice = await asker.ask([*question, *question])
    async with (
        fake_model(SummaryModel()) as model,
        asking_through_the_proxy(engine, SUMMARY_BASE_URL=model.url, SUMMARY_MODEL="fake") as asker,
    ):
        summarised = await converse(asker, Talk(8).turns(TURNS, with_tools=False), with_tools=False)
    async with asking_through_the_proxy(engine, SUMMARY_MAX_TOKENS="96") as asker:
        noted = await converse(asker, Talk(9).turns(TURNS, with_tools=False), with_tools=False)
    return [
        told("late system message, two users in a row, to the engine itself",
             f"{late.status}, {twice.status}"),
        *_told_of(summarised, "summaries by a second model"),
        *_told_of(noted, "notes without a model"),
    ]  # fmt: skip


def _told_of(run: Run, title: str) -> list[Finding]:
    return [
        none_of(f"{TURNS} turns, {title}: errors seen by the client", len(run.errors)),
        at_least("… times that history was folded", len(run.breaks), 3),
    ]
