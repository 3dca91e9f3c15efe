"""A paste that takes most of the window, in a chat that is long already: both are answered."""

import pytest

from tests.journeys.planner.tight import (
    LEAST_ANSWER,
    SYSTEM,
    TELLINGS,
    before_strict_server,
    exchanges,
    is_intact,
    tokens_of,
    varied,
)
from tests.journeys.replay.small_server import is_answer
from tests.unit.chat.shapes import calls, result, says, user

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("telling", TELLINGS)
@pytest.mark.parametrize("window", [8_192, 32_768])
@pytest.mark.parametrize("share", [0.84, 0.9, 0.95])
async def test_a_paste_of_most_of_the_window_is_answered_whole(
    share: float, window: int, telling: str
) -> None:
    history = [SYSTEM, *exchanges(12, window // 20)]
    paste = user(f"Read this.\n{varied(int(share * window) - 40, 'the paste')}\nWhat is wrong?")
    assert tokens_of([SYSTEM, paste]) + LEAST_ANSWER < window
    async with before_strict_server(window, telling=TELLINGS[telling]) as guest:
        first = await guest.tell([*history, user("Are you there?")])
        history += [user("Are you there?"), says("Yes.")]
        pasted = await guest.tell([*history, paste])
        is_whole = is_intact(guest, [*history, paste])
        later = [*history, paste, says(varied(100, "verdict")), user("And now?")]
        after = await guest.tell(later)

    assert [is_answer(it) for it in (first, pasted, after)] == [True] * 3
    assert is_whole
    assert is_intact(guest, later)
    assert guest.server.refusals == []


@pytest.mark.parametrize("telling", TELLINGS)
async def test_a_result_larger_than_the_window_is_shown_as_far_as_the_room_goes(
    telling: str,
) -> None:
    """The newest step is shortened, never blanked, and its call and task stay."""
    history = [SYSTEM, *exchanges(8, 400), user("Read the whole log.")]
    step = [calls("1"), result("1", varied(20_000, "the log"))]
    async with before_strict_server(telling=TELLINGS[telling]) as guest:
        assert is_answer(await guest.tell(history))
        answer = await guest.tell([*history, *step])

    assert is_answer(answer)
    assert guest.server.refusals == []
    assert history[0] in guest.last
    assert history[-1] in guest.last
    assert step[0] in guest.last
    assert guest.prompts[-1] > 6_000
    shown = guest.last[-1]["content"]
    assert shown.startswith(step[1]["content"][:2_000])
    assert shown[-500:] in step[1]["content"]
