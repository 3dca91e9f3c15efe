"""Instructions and tools that leave little of a window: the chat beside them goes on."""

import pytest

from tests.journeys.planner.tight import (
    SYSTEM,
    TELLINGS,
    WINDOW,
    before_strict_server,
    exchanges,
    is_intact,
    tokens_of,
    tools,
    varied,
)
from tests.journeys.replay.small_server import body_of, is_answer
from tests.unit.chat.shapes import Fields, says, system, user

pytestmark = pytest.mark.anyio

TOOLS = tools(36, 6_800)
"""As a well-known chat front end sends them."""


@pytest.mark.parametrize("telling", TELLINGS)
async def test_a_chat_grows_on_beside_36_tool_definitions(telling: str) -> None:
    assert 6_400 < tokens_of([SYSTEM], tools=TOOLS) < 6_700
    history: list[Fields] = [SYSTEM]
    async with before_strict_server(telling=TELLINGS[telling]) as guest:
        for number in range(24):
            history.append(user(varied(60, f"question {number}")))
            answer = await guest.tell(history, tools=TOOLS)
            assert is_answer(answer), (number, answer.body)
            assert is_intact(guest, history, tools=TOOLS)
            history.append(says(varied(120, f"answer {number}")))

    assert tokens_of(history, tools=TOOLS) > 1.2 * WINDOW
    assert guest.server.refusals == []


@pytest.mark.parametrize("telling", TELLINGS)
@pytest.mark.parametrize("share", [0.7, 0.8, 0.88, 0.92])
async def test_a_chat_larger_than_what_instructions_leave_is_answered(
    share: float, telling: str
) -> None:
    instructions = system(varied(int(share * WINDOW), "rules"))
    history = [instructions, *exchanges(9, 300), user("What did we decide about the index?")]
    assert 2_600 < tokens_of(history) - tokens_of(history[:1]) < 2_900
    async with before_strict_server(telling=TELLINGS[telling]) as guest:
        for number in range(3):
            answer = await guest.tell(history)
            assert is_answer(answer), (number, answer.body)
            assert is_intact(guest, history)
            history += [says(varied(40, number)), user(f"And what about shard {number}?")]

    assert guest.server.refusals == []


async def test_instructions_that_alone_exceed_the_window_are_told_with_numbers() -> None:
    history = [system(varied(9_000, "rules")), *exchanges(3, 300), user("Go on.")]
    async with before_strict_server() as guest:
        answer = await guest.tell(history)

    assert answer.status == 400
    assert answer.body == guest.server.refusals[-1].body
    reason = answer.headers["x-chat-proxy-unfit"]
    assert reason.startswith("instructions and tools alone take 9,")
    assert reason.endswith(f" of {WINDOW:,} tokens")
    assert guest.calls[0] == body_of(history)
    assert len(guest.calls) == len(set(guest.calls)) <= 3
