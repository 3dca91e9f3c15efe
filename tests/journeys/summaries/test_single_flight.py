"""One summary at a time for one history, whoever comes late or asks beside (FAULTS C10, C11)."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.journeys.summaries.talking import (
    WINDOW,
    Talk,
    body_of,
    label,
    long_chat,
    post,
    talking,
    turns,
)
from tests.support.fake_model import Line
from tests.support.live import RawAnswer, RawClient, chat_request, eventually, raw_client
from tests.support.summary_model import Question, SummaryModel, after, good, once_open
from tests.unit.chat.shapes import user

pytestmark = pytest.mark.anyio


async def crowd(talk: Talk, stack: AsyncExitStack, count: int) -> list[RawClient]:
    """Connect so many clients."""
    return [await stack.enter_async_context(raw_client(talk.proxy)) for _ in range(count)]


async def all_answers(clients: list[RawClient]) -> list[RawAnswer]:
    """Wait until everybody has an answer."""
    return await asyncio.gather(*(client.answer() for client in clients))


async def test_the_next_turn_waits_for_the_summary_that_is_under_way() -> None:
    """BUGS 9, 43: a longer history joins the flight of its own beginning."""
    gate = asyncio.Event()
    brain = SummaryModel(once_open(gate), window=WINDOW)
    async with talking(brain) as talk, AsyncExitStack() as stack:
        first, second = await crowd(talk, stack, 2)
        await first.send(chat_request(body_of(long_chat())))
        await eventually(lambda: len(brain.summaries) == 1)
        longer = [*long_chat(), *turns(1, 100, first=20)[1:], user("And then?")]
        await second.send(chat_request(body_of(longer)))
        await asyncio.sleep(0.3)
        gate.set()
        answers = await all_answers([first, second])

    assert [it.status for it in answers] == [200, 200]
    assert len(brain.summaries) == 1


async def test_branches_of_one_history_share_its_summary() -> None:
    """BUGS 43: agents ask for titles and tags beside the main request."""
    brain = SummaryModel(after(0.3), window=WINDOW)
    async with talking(brain) as talk, AsyncExitStack() as stack:
        clients = await crowd(talk, stack, 10)
        chats = [[*long_chat()[:-1], user(f"Give it title {n}")] for n in range(10)]
        answers = await asyncio.gather(
            *(post(client, body_of(chat)) for client, chat in zip(clients, chats, strict=True))
        )

    assert [it.status for it in answers] == [200] * 10
    assert {label(it) for it in answers} <= {"built", "reused"}
    assert len(brain.summaries) == 1


async def test_different_conversations_do_not_wait_for_each_other() -> None:
    brain = SummaryModel(after(0.1), window=WINDOW)
    async with talking(brain) as talk, AsyncExitStack() as stack:
        clients = await crowd(talk, stack, 6)
        chats = [[user(f"I am number {n}"), *long_chat()[2:]] for n in range(6)]
        answers = await asyncio.gather(
            *(post(client, body_of(chat)) for client, chat in zip(clients, chats, strict=True))
        )

    assert [label(it) for it in answers] == ["built"] * 6
    assert len(brain.summaries) == 6


async def test_no_more_summaries_are_written_at_once_than_allowed() -> None:
    """A crowd of long conversations does not become a crowd of questions."""
    brain = SummaryModel(window=WINDOW)
    most = busy = 0

    async def counted(question: Question, line: Line) -> None:
        nonlocal most, busy
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.05)
        busy -= 1
        await good(question, line)

    brain.telling = counted
    async with (
        talking(brain, summary={"concurrency": 2}) as talk,
        AsyncExitStack() as stack,
    ):
        clients = await crowd(talk, stack, 6)
        chats = [[user(f"I am number {n}"), *long_chat()[2:]] for n in range(6)]
        answers = await asyncio.gather(
            *(post(client, body_of(chat)) for client, chat in zip(clients, chats, strict=True))
        )

    assert [label(it) for it in answers] == ["built"] * 6
    assert most == 2
