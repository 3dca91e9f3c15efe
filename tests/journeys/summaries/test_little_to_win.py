"""A compaction that wins little is not made: it would cost the prefix and a summary for nothing."""

import pytest

from tests.journeys.summaries.talking import (
    LIMIT,
    SYSTEM,
    TRIGGER,
    WINDOW,
    Talk,
    label,
    prose,
    talking,
    turns,
)
from tests.journeys.trimming.growing import results_of, step
from tests.support.live import eventually
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields, says, user

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

OBSERVE = "x-chat-proxy-mode: observe"


def working(old: int, size: int) -> list[Fields]:
    """Return one turn of so many tokens, and one with the newest two steps of about this size."""
    made = [step(str(number), prose(size, f"file {number}")) for number in range(2)]
    asked = [SYSTEM, *turns(1, old), user("Now fix it.")]
    return [*asked, *(message for one in made for message in one)]


WITHIN = working(old=380, size=2_600)
"""Over the trigger, and all but a twentieth is what the model works with."""
BEYOND = working(old=380, size=3_500)
"""Over what leaves space for an answer."""
DONE = [says("It is fixed."), user("Thank you. And now?")]


async def settled(talk: Talk, summaries: int) -> None:
    """Wait until so many summaries were asked for and all of them are kept."""
    running = talk.proxy.services.compaction.summaries.jobs._running
    await eventually(lambda: len(talk.brain.summaries) == summaries and not running)


@pytest.mark.parametrize("wait", ["trigger", "overflow"])
async def test_what_would_win_little_goes_on_as_it_is_and_nobody_is_asked(wait: str) -> None:
    brain = SummaryModel(window=WINDOW)
    async with talking(brain, summary={"wait": wait}) as talk:
        sent = [await talk.ask(WITHIN) for _ in range(3)]

    for asked in sent:
        assert TRIGGER < asked.tokens[0] < LIMIT
        assert (label(asked), asked.upstream) == ("none", asked.body)
    assert brain.summaries == []


async def test_when_the_turn_is_over_its_steps_are_folded_too() -> None:
    """One summary of all steps, and the prefix breaks once."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        await talk.ask(WITHIN)
        over = await talk.ask([*WITHIN, *DONE])
        later = await talk.ask([*WITHIN, *DONE, says("Nothing."), user("Really?")])

    assert [label(it) for it in (over, later)] == ["built", "reused"]
    assert over.tokens[1] <= TRIGGER / 2
    assert over.begins(later)
    assert len(brain.summaries) == 1


async def test_nobody_waits_for_that_either() -> None:
    """By default the request goes on while the summary is written, and the next one uses it."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain, summary={"wait": "overflow"}) as talk:
        await talk.ask(WITHIN)
        over = await talk.ask([*WITHIN, *DONE])
        await settled(talk, 1)
        later = await talk.ask([*WITHIN, *DONE, says("Nothing."), user("Really?")])

    assert (label(over), over.upstream) == ("none", over.body)
    assert label(later) == "reused"
    assert later.tokens[1] <= TRIGGER / 2
    assert len(brain.summaries) == 1


async def test_the_answer_never_loses_its_room_for_that() -> None:
    """Over the limit all is folded that can be, and the newest steps are shortened, not blanked."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        asked = await talk.ask(BEYOND)

    first, second = results_of(asked.messages)
    assert asked.tokens[0] > LIMIT >= asked.tokens[1]
    assert asked.tokens[1] >= LIMIT * 0.9
    assert brain.overflows == []
    for shown, whole in zip((first, second), results_of(BEYOND), strict=True):
        assert len(shown) >= len(whole) * 0.75
        assert shown[:200] == whole[:200]
        assert shown[-200:] == whole[-200:]


async def test_a_look_says_the_same() -> None:
    brain = SummaryModel()
    async with talking(brain) as talk:
        within = await talk.ask(WITHIN, OBSERVE)
        beyond = await talk.ask(BEYOND, OBSERVE)

    assert label(within) == "none"
    assert beyond.tokens[1] <= LIMIT
    assert beyond.upstream == beyond.body
    assert brain.summaries == []
