"""When a request is looked at, when it is compacted again, and when a summary is prepared."""

from typing import Any

import pytest

from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.budget import Budget, BudgetPolicy
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.proxy.compacting.decide import (
    is_due,
    is_near_trigger,
    is_near_window,
    nothing_to_do,
)
from chat_proxy.proxy.session.manual_mark import is_marked_manual
from chat_proxy.proxy.session.session import AppliedCheckpoint
from tests.unit.chat.shapes import Fields, conversation, image, says, user
from tests.unit.compaction.examples import tool_step
from tests.unit.proxy.sessions import Proxy, proxy_with

pytestmark = pytest.mark.anyio

LINE = "The quick brown fox jumps over the lazy dog in the morning. " * 8
BUDGET = Budget.of(8_000, {}, BudgetPolicy(0.8, 0.65))


def talk(turns: int) -> list[Fields]:
    messages = [message for _ in range(turns) for message in (user(LINE), says(LINE))]
    return [*messages, user("now")]


def applied(tokens: int | None) -> AppliedCheckpoint:
    talked = conversation(user())
    checkpoint = None if tokens is None else Checkpoint(0, Treatments(), tokens)
    return AppliedCheckpoint(talked, talked, talked, (), checkpoint)


@pytest.mark.parametrize(
    ("tokens", "before", "due"),
    [
        (5_599, None, False),
        (5_600, None, True),
        (5_600, 5_000, True),
        (5_600, 5_100, False),
        (5_620, 5_100, True),
        (7_743, 7_700, False),
        (7_745, 7_700, True),
    ],
)
def test_a_request_is_due_over_the_trigger_and_again_when_it_has_grown(
    tokens: int, before: int | None, due: bool
) -> None:
    """BUGS 22: by a tenth; over the limit always."""
    assert (BUDGET.trigger, BUDGET.limit) == (5_600, 7_744)
    assert is_due(BUDGET, tokens, applied(before)) is due


async def small_request(proxy: Proxy, messages: list[Fields], **fields: Any) -> bool:
    """Return whether a request has nothing to do, once it is known that nothing is marked."""
    request = await proxy.request(messages, **fields)
    assert not await is_marked_manual(request, proxy.services.compaction.checkpoints)
    return nothing_to_do(request, proxy.services.compaction.checkpoints)


async def test_a_small_request_is_sent_as_it_is() -> None:
    async with proxy_with() as proxy:
        assert await small_request(proxy, talk(2))
        assert not await small_request(proxy, talk(40))
        assert not await small_request(proxy, [user([image()]), says(), user([image()])])
        assert not await small_request(proxy, talk(2), max_tokens=8_000)


async def test_without_a_known_window_nothing_is_compacted() -> None:
    async with proxy_with(budget={"context_window": None}) as proxy:
        assert await small_request(proxy, talk(400))


async def test_a_request_is_looked_at_from_half_of_the_trigger_on() -> None:
    async with proxy_with() as proxy:
        for turns, is_near in ((5, False), (40, True)):
            request = await proxy.request(talk(turns))
            budget = request.measured.budget
            assert budget is not None
            assert (request.measured.tokens >= budget.trigger // 2) is is_near
            assert is_near_window(request, request.measured, budget) is is_near


async def test_a_small_request_is_looked_at_if_ageing_after_a_pause_would_save_enough() -> None:
    steps = [message for n in range(3) for message in tool_step(f"s{n}", "bash", LINE * 3)]
    messages = [user("go"), *steps, says("done"), user("now")]
    eager = {"protect_tokens": 0, "minimum_tokens": 100}

    async def is_near(**prune: Any) -> bool:
        async with proxy_with(prune=prune, budget={"context_window": 50_000}) as proxy:
            request = await proxy.request(messages)
            assert request.measured.budget is not None
            return is_near_window(request, request.measured, request.measured.budget)

    assert await is_near(**eager)
    assert not await is_near(**eager, idle_minutes=0)
    assert not await is_near(protect_tokens=0, minimum_tokens=9_000)


@pytest.mark.parametrize(
    ("sections", "is_near"),
    [({}, True), ({"summary": {"enabled": False}}, False), ({"budget": {"prepare": 1}}, False)],
)
async def test_a_summary_is_prepared_near_the_trigger(
    sections: dict[str, Any], is_near: bool
) -> None:
    async with proxy_with(**sections) as proxy:
        far, near = await proxy.session(talk(20)), await proxy.session(talk(23))
        assert far.trimmed.token_count.tokens < 5_100 < near.trimmed.token_count.tokens < 5_600

        assert is_near_trigger(near, near.trimmed) is is_near
        assert not is_near_trigger(far, far.trimmed)
