"""A changed history finds the summary of its own tenant, after a restart too, and no other."""

from copy import deepcopy
from pathlib import Path

import pytest

from tests.journeys.recognition.clients import (
    Client,
    agent,
    clock_in_system_prompt,
    has_fold,
    last_messages,
    memories_in_second_system_message,
    new_call_ids,
    other_argument_order,
    prunes_old_outputs,
)
from tests.journeys.summaries.talking import WINDOW, label, long_chat, talking, talking_to
from tests.support.fake_model import fake_model
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields

pytestmark = pytest.mark.anyio

ALICE, BOB = "authorization: Bearer alice", "authorization: Bearer bob"
RUN = agent(16)[-1]
CLIENTS: tuple[Client, ...] = (
    clock_in_system_prompt,
    memories_in_second_system_message,
    new_call_ids,
    other_argument_order,
    prunes_old_outputs,
)


def other_result(messages: list[Fields]) -> list[Fields]:
    """Return the same run in which the first call had another result."""
    changed = deepcopy(messages)
    changed[3]["content"] = changed[3]["content"].replace("loader", "reader")
    return changed


def instructions_of(messages: list[Fields]) -> list[Fields]:
    return [message for message in messages if message["role"] == "system"]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
async def test_only_the_same_tenant_uses_the_summary(client: Client) -> None:
    """BUGS 36: what is alike is looked for among the tenant's own."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        first = await talk.ask(client(RUN, 1), ALICE)
        written = len(brain.summaries)
        own = await talk.ask(client(RUN, 2), ALICE)
        assert len(brain.summaries) == written
        foreign = await talk.ask(client(RUN, 2), BOB)

    assert [label(it) for it in (first, own, foreign)] == ["built", "reused", "built"]
    asked_by = [question.received.header("authorization") for question in brain.summaries[written:]]
    assert set(asked_by) == {"Bearer bob"}


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
async def test_a_restarted_proxy_recognises_it(client: Client, tmp_path: Path) -> None:
    """BUGS 37."""
    store = {"url": f"sqlite:///{tmp_path / 'store.db'}"}
    brain = SummaryModel(window=WINDOW)
    async with fake_model(brain) as model:
        async with talking_to(model, store=store) as talk:
            first = await talk.ask(client(RUN, 0))
            written = len(brain.summaries)
        async with talking_to(model, store=store) as talk:
            second = await talk.ask(client(RUN, 1))

    assert [label(it) for it in (first, second)] == ["built", "reused"]
    assert len(brain.summaries) == written
    assert has_fold(second.messages)
    assert instructions_of(second.messages) == instructions_of(client(RUN, 1))


async def test_a_window_is_recognised_after_a_restart(tmp_path: Path) -> None:
    store = {"url": f"sqlite:///{tmp_path / 'store.db'}"}
    brain = SummaryModel(window=WINDOW)
    given = long_chat()
    async with fake_model(brain) as model:
        async with talking_to(model, store=store) as talk:
            first = await talk.ask(given)
        async with talking_to(model, store=store) as talk:
            second = await talk.ask(last_messages(len(given) - 4)(given, 1))
            third = await talk.ask(last_messages(len(given) - 6)(given, 2))

    assert [label(it) for it in (first, second, third)] == ["built", "reused", "reused"]
    assert len(brain.summaries) == 1
    assert first.messages == second.messages == third.messages


async def test_the_same_calls_with_another_result_are_another_history() -> None:
    """BUGS 36: a nightly job must not get yesterday's summary."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        asked = [await talk.ask(it) for it in (RUN, other_result(RUN))]

    assert [label(it) for it in asked] == ["built", "built"]


async def test_calls_without_any_of_their_results_are_no_evidence() -> None:
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        await talk.ask(RUN)
        cleared = [
            {**message, "content": "[Old tool result content cleared]"}
            if message["role"] == "tool"
            else message
            for message in RUN
        ]
        asked = await talk.ask(cleared)

    assert label(asked) != "reused"
