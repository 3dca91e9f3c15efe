"""Pictures by each API, and pictures of a model whose name says nothing of its family."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tools.engine.client.asking import asking_through_the_proxy
from tools.engine.client.journal import desk_before
from tools.engine.client.talk import SYSTEM, Talk
from tools.engine.client.wires import FORMS, Messages, WireForm
from tools.engine.findings import Finding, below, none_of, percentile, told
from tools.engine.scenarios.images import shown
from tools.engine.scenarios.wires.turns import side_by_side
from tools.engine.serving import Engine

UNKNOWN_NAME: Final = "my-model"
TURNS = 12
PICTURES = 30
LEARNING = 10
SIZES: Final = ((224, 224), (336, 252), (448, 448), (200, 600), (560, 420), (300, 300), (700, 500))
WORST_COUNT = 0.05
WORST_UNKNOWN = 0.1


async def wire_pictures(engine: Engine) -> list[Finding]:
    """Talk about pictures, with all of them kept as long as they fit."""
    return side_by_side([await _by(engine, form) for form in FORMS])


async def _by(engine: Engine, form: WireForm) -> list[Finding]:
    settings = {"SUMMARY_MAX_TOKENS": "96", "VISION_TRUNCATE_HISTORY": "false"}
    async with desk_before(engine, form, settings) as desk:
        journal = await desk.converse(
            _turns(), SYSTEM, max_tokens=16, words=Talk(91), with_tools=False
        )
    errors = [it.counting_error for it in journal.run.answers[3:] if it.prompt_tokens]
    return [
        none_of(f"{TURNS} turns with a picture each: errors seen by the client",
                len(journal.run.errors)),
        told("… largest prompt", journal.run.largest_prompt),
        told("… requests with `age_media`",
             sum("age_media" in it.stages for it in journal.run.answers)),
        told("… prompts that the engine refused", journal.refusals),
        below("… counting error, p95", percentile(errors or [1.0], 0.95), WORST_COUNT),
    ]  # fmt: skip


def _turns() -> Iterator[Messages]:
    talk = Talk(90)
    for turn in range(TURNS):
        yield [shown(talk.prose(15), *SIZES[turn % len(SIZES)])]


async def unknown_pictures(engine: Engine) -> list[Finding]:
    """Show pictures of many shapes; what they cost must be learned from the engine's counts."""
    named = replace(engine, model=UNKNOWN_NAME)
    errors: list[float] = []
    failed = 0
    async with asking_through_the_proxy(named) as asker:
        for number in range(PICTURES):
            talk = Talk(700 + number)
            message = shown(talk.prose(20), *SIZES[number * 3 % len(SIZES)])
            answer = await asker.ask([SYSTEM, message], max_tokens=2, streams=number % 2 == 1)
            failed += answer.status != 200
            errors.append(answer.counting_error if answer.prompt_tokens else 1.0)
    learned = errors[LEARNING:]
    return [
        none_of(f"{PICTURES} chats with a picture: errors", failed),
        told("… counting error of the first ones", ", ".join(f"{it:.0%}" for it in errors[:6])),
        below(f"… after {LEARNING}: p95", percentile(learned, 0.95), WORST_UNKNOWN),
        told("… worst", f"{max(learned):.2%}"),
    ]
