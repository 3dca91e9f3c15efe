"""A chat template that refuses whatever does not alternate, by each API."""

from tools.engine.client.journal import desk_before
from tools.engine.client.talk import SYSTEM, Talk
from tools.engine.client.wires import FORMS, WireForm
from tools.engine.findings import Finding, at_least, none_of, told
from tools.engine.scenarios.wires.turns import side_by_side
from tools.engine.serving import Engine

TURNS = 40


async def strict_wires(engine: Engine) -> list[Finding]:
    """Talk long enough to be folded several times; the folds must alternate as well."""
    return side_by_side([await _by(engine, form) for form in FORMS])


async def _by(engine: Engine, form: WireForm) -> list[Finding]:
    turns = Talk(80).turns(TURNS, with_tools=False)
    async with desk_before(engine, form, {"SUMMARY_MAX_TOKENS": "96"}) as desk:
        journal = await desk.converse(
            turns, SYSTEM, max_tokens=16, words=Talk(81), with_tools=False
        )
    return [
        none_of(f"{TURNS} turns: errors seen by the client", len(journal.run.errors)),
        at_least("… times that history was folded", len(journal.run.breaks), 1),
        told("… prompts that the engine refused", journal.refusals),
    ]
