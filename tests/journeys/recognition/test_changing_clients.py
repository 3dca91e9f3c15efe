"""Clients that change their history with each request get few summaries, and use them."""

from itertools import pairwise
from typing import Any

import pytest

from tests.journeys.recognition.clients import (
    TOOLS,
    Client,
    agent,
    appends_only,
    chat,
    clock_in_system_prompt,
    environment_in_newest_message,
    has_fold,
    last_messages,
    memories_in_second_system_message,
    moving_cache_marks,
    new_call_ids,
    other_argument_order,
    other_forms_of_contents,
    prunes_old_outputs,
    reminder_in_newest_result,
    task_and_last_messages,
)
from tests.journeys.summaries.talking import WINDOW, Talk, label, talking
from tests.journeys.trimming.growing import Asked
from tests.support.conversations import listening
from tests.support.summary_model import SummaryModel, failing
from tests.unit.chat.shapes import Fields

pytestmark = pytest.mark.anyio

REQUESTS = 45
MOST_PER_REQUEST = 0.16
MOST_PER_REQUEST_OF_WINDOWS = 0.2
MOST_PER_REQUEST_OF_LARGE_RESULTS = 0.25
"""A client that only appends has up to 11 for 60 requests with results of 500 tokens."""

OF_CHATS: tuple[Client, ...] = (
    appends_only,
    clock_in_system_prompt,
    memories_in_second_system_message,
    environment_in_newest_message,
    moving_cache_marks,
    other_forms_of_contents,
)
OF_AGENTS: tuple[Client, ...] = (
    appends_only,
    clock_in_system_prompt,
    memories_in_second_system_message,
    new_call_ids,
    other_argument_order,
    prunes_old_outputs,
    reminder_in_newest_result,
    environment_in_newest_message,
    moving_cache_marks,
)


async def sent(talk: Talk, histories: list[list[Fields]], client: Client) -> list[Asked]:
    """Send a history request by request, as a client does, and return what became of each."""
    return [await talk.ask(client(messages, at)) for at, messages in enumerate(histories)]


async def run(
    histories: list[list[Fields]], client: Client, **sections: Any
) -> tuple[list[Asked], SummaryModel]:
    brain = SummaryModel(window=WINDOW)
    async with talking(brain, **sections) as talk:
        talk.fields["tools"] = TOOLS
        return await sent(talk, histories, client), brain


def is_folded_from_the_first_on(asked: list[Asked]) -> bool:
    """Return whether every prompt behind the first that was folded has a fold."""
    folded = [has_fold(it.messages) for it in asked]
    return True in folded and all(folded[folded.index(True) :])


@pytest.mark.parametrize("client", OF_CHATS, ids=lambda client: client.__name__)
async def test_a_chat_is_summarised_as_often_as_if_it_were_only_appended(client: Client) -> None:
    asked, brain = await run(chat(REQUESTS), client)

    assert 0 < len(brain.summaries) <= MOST_PER_REQUEST * REQUESTS
    assert is_folded_from_the_first_on(asked)
    assert brain.overflows == []


@pytest.mark.parametrize("client", OF_AGENTS, ids=lambda client: client.__name__)
async def test_an_agent_is_summarised_as_often_as_if_it_only_appended(client: Client) -> None:
    asked, brain = await run(agent(REQUESTS), client)

    assert 0 < len(brain.summaries) <= MOST_PER_REQUEST * REQUESTS
    assert is_folded_from_the_first_on(asked)
    assert brain.overflows == []


@pytest.mark.parametrize("count", [40, 60])
async def test_a_window_of_the_last_messages_is_recognised(count: int) -> None:
    asked, brain = await run(chat(REQUESTS + count // 2, 300), last_messages(count))

    assert 0 < len(brain.summaries) <= MOST_PER_REQUEST_OF_WINDOWS * len(asked)
    assert is_folded_from_the_first_on(asked)


@pytest.mark.parametrize("calls", [1, 2])
async def test_an_agent_that_keeps_its_task_and_its_last_steps_is_recognised(calls: int) -> None:
    asked, brain = await run(agent(REQUESTS, calls=calls), task_and_last_messages(30 * calls))

    assert 0 < len(brain.summaries) <= MOST_PER_REQUEST_OF_WINDOWS * len(asked)
    assert is_folded_from_the_first_on(asked)
    breaks = [new for old, new in pairwise(asked) if not old.begins(new)]
    assert len(breaks) <= len(brain.summaries)


async def test_a_summary_is_used_if_the_client_prunes_after_it_was_prepared() -> None:
    asked, brain = await run(
        agent(60, 500),
        prunes_old_outputs,
        summary={"wait": "overflow"},
        budget={"prepare": 0.5},
    )

    assert 0 < len(brain.summaries) <= MOST_PER_REQUEST_OF_LARGE_RESULTS * len(asked)
    assert {label(it) for it in asked} >= {"none", "reused"}


async def test_a_model_that_refuses_is_not_asked_again_behind_a_changing_system_prompt() -> None:
    """Its failures are kept by the conversation, not by bytes that change."""
    brain = SummaryModel(failing(400), window=WINDOW)
    async with talking(brain) as talk:
        await sent(talk, chat(REQUESTS), clock_in_system_prompt)

    assert 0 < len(brain.summaries) <= 0.05 * REQUESTS


def another_first_word(messages: list[Fields], number: int) -> list[Fields]:
    """Change the user's first message with each request: no history is like another."""
    first, *rest = messages[1:]
    return [messages[0], {**first, "content": f"{number}: {first['content']}"}, *rest]


async def test_where_no_history_is_found_again_folds_are_made_without_a_model() -> None:
    """The guard ends the storm, says so once, and every request is answered."""
    brain = SummaryModel(window=WINDOW)
    histories = chat(75)
    with listening() as log:
        async with talking(brain) as talk:
            await sent(talk, histories[:60], another_first_word)
            bought = len(brain.summaries)
            asked = await sent(talk, histories[60:], another_first_word)

    assert bought > 40
    assert len(brain.summaries) == bought
    assert len(log.lines("summaries are not found again: folds are made without a model")) == 1
    assert all(has_fold(it.messages) for it in asked)
