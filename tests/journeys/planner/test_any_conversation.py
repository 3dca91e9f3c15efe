"""Whatever the conversation: if its smallest form fits by the server's count, it is answered."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from tests.journeys.planner.tight import (
    LEAST_ANSWER,
    TELLINGS,
    before_strict_server,
    is_intact,
    tokens_of,
    tools,
    varied,
)
from tests.journeys.replay.small_server import is_answer
from tests.journeys.trimming.growing import has_whole_pairs, step
from tests.unit.chat.shapes import Fields, says, system, user

LINE = varied(60, "a line")
"""The least that stays of a tool result."""

SIZES = st.sampled_from([5, 40, 150, 400, 1_200])
ASKS = st.tuples(st.just("ask"), SIZES, SIZES)
WORKS = st.tuples(st.just("work"), st.sampled_from([40, 400, 1_200, 9_000]), st.integers(1, 4))
PASTES = st.tuples(st.just("paste"), st.integers(30, 97), SIZES)
"""A question that takes so many hundredths of what instructions leave."""
Move = tuple[str, int, int]


class Case(NamedTuple):
    """A conversation, and the server that it meets."""

    window: int
    fixed: float
    """The share of the window that instructions and tools take."""
    tools_share: float
    """The share of tools in that."""
    moves: Sequence[Move]
    telling: str
    factor: float
    is_announced: bool
    output: int | None
    skipped: int
    """So many moves were made before the proxy was there."""
    stream: bool


CASES = st.builds(
    Case,
    window=st.sampled_from([2_048, 4_096, 8_192, 16_384, 32_768]),
    fixed=st.floats(0.05, 0.95),
    tools_share=st.sampled_from([0, 0, 0.5, 0.9]),
    moves=st.lists(st.one_of(ASKS, ASKS, WORKS, WORKS, PASTES), min_size=3, max_size=14),
    telling=st.sampled_from(sorted(TELLINGS)),
    factor=st.floats(0.9, 1.15),
    is_announced=st.booleans(),
    output=st.sampled_from([None, None, 64, 1_000, 32_000]),
    skipped=st.sampled_from([0, 0, 4, 10]),
    stream=st.booleans(),
)
THOROUGH = settings(
    max_examples=30,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)


def fixed_part(case: Case) -> tuple[Fields, dict[str, Any]]:
    """Return instructions and fields of about the wished share of the window."""
    tokens = int(case.fixed * case.window / case.factor)
    of_tools = int(tokens * case.tools_share)
    fields: dict[str, Any] = {"stream": True} if case.stream else {}
    fields |= {"max_tokens": case.output} if case.output else {}
    if of_tools > 100:
        fields["tools"] = tools(max(1, of_tools // 180), of_tools)
    return system(varied(max(5, tokens - of_tools), "rules")), fields


def moved(history: list[Fields], move: Move, number: int, case: Case) -> list[Fields]:
    """Return the history after a move; sizes are for a window of 8k."""
    kind, size, other = move
    scale = case.window / 8_192
    size = max(3, int(size * scale))
    if kind == "paste":
        size = int((1 - case.fixed) * case.window / case.factor * move[1] / 100)
    if kind in ("ask", "paste"):
        answer = says(varied(max(3, int(other * scale)), f"answer {number}"))
        return [*history, answer, user(varied(size, f"question {number}"))]
    results = [varied(size, f"result {number} {each}") for each in range(other)]
    return [*history, *step(f"s{number}", *results)]


def smallest(history: Sequence[Fields]) -> list[Fields]:
    """Return the least that must be sent: instructions, current message, newest step as lines."""
    last_user = max(index for index, message in enumerate(history) if message["role"] == "user")
    first_user = last_user
    while history[first_user - 1]["role"] == "user":
        first_user -= 1
    calls = [index for index, message in enumerate(history) if message.get("tool_calls")]
    newest = history[calls[-1] :] if calls and calls[-1] > last_user else []
    lines = [
        {**message, "content": LINE} if message["role"] == "tool" else message for message in newest
    ]
    return [history[0], *history[first_user : last_user + 1], *lines]


async def answers_all_that_fits(case: Case) -> None:
    instructions, fields = fixed_part(case)
    history: list[Fields] = [instructions, user(varied(20, "task"))]
    async with before_strict_server(
        case.window,
        factor=case.factor,
        telling=TELLINGS[case.telling],
        is_announced=case.is_announced,
        summary={"timeout_seconds": 5},
    ) as guest:
        for number, move in enumerate(case.moves):
            history = moved(history, move, number, case)
            if number < min(case.skipped, len(case.moves) - 1):
                continue
            needed = tokens_of(smallest(history), case.factor, **fields) + LEAST_ANSWER
            answer = await guest.tell(history, **fields)
            fits = needed <= case.window
            event(f"fits: {fits}, answered: {is_answer(answer)}, {label(answer)}")
            assert is_answer(answer) or not fits, (number, needed, answer.headers, guest.prompts)
            if is_answer(answer):
                assert has_whole_pairs(guest.last)
                is_asked = history[-1]["role"] == "user"
                assert not is_asked or is_intact(guest, history, **fields)


def label(answer: Any) -> str:
    return str(answer.headers.get("x-chat-proxy-compaction"))


@THOROUGH
@given(case=CASES)
def test_whatever_fits_in_its_smallest_form_is_answered(case: Case) -> None:
    """BUGS 12, 33: windows of 2k to 32k, fixed parts of 5 to 95 %, any summary model."""
    asyncio.run(answers_all_that_fits(case))
