"""An agent reads more in one step than the window holds: the newest results are cut."""

import pytest

from tests.journeys.replay.small_server import at_least, is_answer, over, stages_of, visiting
from tests.journeys.summaries.talking import SYSTEM, prose
from tests.journeys.trimming.growing import has_whole_pairs
from tests.unit.chat.shapes import Fields, calls, result, user

pytestmark = pytest.mark.anyio

WINDOW = 4_000
NAMES = tuple(f"r{number}" for number in range(12))


def one_step(words: int = 600) -> list[Fields]:
    results = [result(name, prose(words, name)) for name in NAMES]
    return [SYSTEM, user("Read all files."), calls(*NAMES), *results]


async def test_results_of_one_step_that_no_window_holds_are_cut_on_the_replay() -> None:
    """Seen with opencode and pi, which read many files at once."""
    async with visiting(over(WINDOW)) as guest:
        answer = await guest.tell(one_step())

    assert is_answer(answer)
    assert stages_of(answer)[-1] == "replay"
    assert guest.prompts[-1] < WINDOW <= guest.prompts[0]
    assert has_whole_pairs(guest.last)
    assert guest.last[:2] == one_step()[:2]
    assert all("[Tool output truncated: omitted" in it["content"] for it in guest.last[3:])


async def test_as_much_stays_of_each_result_as_fits() -> None:
    async with visiting(over(WINDOW)) as guest:
        await guest.tell(one_step())

    assert WINDOW / 3 < guest.prompts[-1] < WINDOW


async def test_results_of_exempt_tools_are_never_cut() -> None:
    async with visiting(over(WINDOW), tools={"exempt": ["get_weather"]}) as guest:
        answer = await guest.tell(one_step())

    assert (answer.status, answer.body) == (400, at_least(WINDOW))
