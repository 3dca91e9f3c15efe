"""vLLM says only "at least N+1": a prompt that is over by a hundredth is answered all the same."""

import pytest

from tests.journeys.planner.tight import (
    SYSTEM,
    TELLINGS,
    WINDOW,
    before_strict_server,
    exchanges,
    is_intact,
    tokens_of,
    varied,
)
from tests.journeys.replay.small_server import Guest, is_answer
from tests.unit.chat.shapes import Fields, says, system, user

pytestmark = pytest.mark.anyio


def filled_up(history: list[Fields], wanted: int) -> list[Fields]:
    """Return the history with a last question that brings it to so many tokens, or a few less."""
    missing = wanted - tokens_of([*history, user("")])
    assert missing > 20
    return [*history, user(varied(missing, "the question"))]


async def grown_to(guest: Guest, history: list[Fields]) -> None:
    """Let the proxy learn how the server counts, from the beginning of the chat."""
    assert is_answer(await guest.tell([*history[:5], user("Hi")]))


@pytest.mark.parametrize("telling", TELLINGS)
@pytest.mark.parametrize("fixed", [0.05, 0.5, 0.85, 0.9])
@pytest.mark.parametrize("over", [1.0, 1.01, 1.02])
async def test_a_prompt_a_little_over_an_unknown_window_is_replayed(
    over: float, fixed: float, telling: str
) -> None:
    instructions = system(varied(int(fixed * WINDOW), "rules"))
    talk = exchanges(8, int((1 - fixed) * WINDOW / 10))
    history = filled_up([instructions, *talk], int(over * WINDOW) + 20)
    assert WINDOW <= tokens_of(history) <= (over + 0.01) * WINDOW
    async with before_strict_server(telling=TELLINGS[telling], is_announced=False) as guest:
        await grown_to(guest, [instructions, *talk])
        answer = await guest.tell(history)
        is_whole = is_intact(guest, history)
        refused = [it for it in guest.server.chats if it.tokens >= WINDOW]
        later = [*history, says("Well."), user("And then?")]
        next_answer = await guest.tell(later)

    assert is_answer(answer)
    assert is_whole
    assert len(refused) == 1
    assert is_answer(next_answer)
    assert is_intact(guest, later)
    assert len([it for it in guest.server.chats if it.tokens >= WINDOW]) == 1


@pytest.mark.parametrize("telling", TELLINGS)
@pytest.mark.parametrize("factor", [1.01, 1.1])
async def test_a_server_that_counts_more_than_we_do_refuses_nothing_once_it_has_counted(
    factor: float, telling: str
) -> None:
    """The window is known; that the server needs more tokens is learned from its first answer."""
    history: list[Fields] = [SYSTEM]
    async with before_strict_server(factor=factor, telling=TELLINGS[telling]) as guest:
        for number in range(30):
            history.append(user(varied(100, f"question {number}")))
            answer = await guest.tell(history)
            assert is_answer(answer), (number, answer.body)
            assert is_intact(guest, history)
            history.append(says(varied(300, f"answer {number}")))

    assert tokens_of(history) > 1.3 * WINDOW
    assert guest.server.refusals == []
