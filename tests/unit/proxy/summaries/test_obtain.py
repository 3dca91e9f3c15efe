"""A summary that is ready, running, or begun; and when none is begun."""

import pytest

from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.proxy.session.session import CompactionSession
from chat_proxy.proxy.summaries.draft import Span
from chat_proxy.proxy.summaries.jobs import PREPARED
from chat_proxy.proxy.summaries.obtain import (
    covers_more,
    job_of,
    ready_summary,
    running_summary,
    start_summary,
)
from tests.journeys.summaries.in_process import Writer
from tests.unit.chat.shapes import Fields, says, system, user
from tests.unit.proxy.sessions import Proxy, proxy_with

pytestmark = pytest.mark.anyio

LINE = "The quick brown fox jumps over the lazy dog in the morning. " * 12


def talk(turns: int) -> list[Fields]:
    messages = [message for _ in range(turns) for message in (user(LINE), says(LINE))]
    return [system(), *messages, user("now")]


def summary(until: int) -> Checkpoint:
    return Checkpoint(until, Treatments(), 0, until, "", "## Goal\n- g", until)


async def prepare(proxy: Proxy, session: CompactionSession, until: int) -> None:
    """Store a summary that was prepared for the first messages of a history."""
    await proxy.services.compaction.checkpoints.keep(
        session.compaction.scope, session.history, summary(until), PREPARED
    )


async def test_the_newest_prepared_summary_is_ready() -> None:
    async with proxy_with() as proxy:
        session = await proxy.session(talk(10))
        applied = await session.apply(None)
        assert await ready_summary(session, applied) is None

        await prepare(proxy, session, 5)
        await prepare(proxy, session, 9)

        assert await ready_summary(await proxy.session(talk(10)), applied) == summary(9)


async def test_a_summary_is_found_when_the_conversation_has_grown() -> None:
    async with proxy_with() as proxy:
        session = await proxy.session(talk(10))
        await prepare(proxy, session, 9)

        grown = await proxy.session([*talk(10), says(LINE), user("and now?")])

        assert await ready_summary(grown, await grown.apply(None)) == summary(9)


async def test_a_summary_of_another_tenant_or_history_is_not_found() -> None:
    async with proxy_with() as proxy:
        session = await proxy.session(talk(10))
        await prepare(proxy, session, 9)

        other = await proxy.session([user("another beginning"), *talk(10)])
        foreign = await proxy.session(talk(10), tenant="other")

        assert await ready_summary(other, await other.apply(None)) is None
        assert await ready_summary(foreign, await foreign.apply(None)) is None


async def test_a_summary_that_covers_no_more_than_the_one_in_use_is_not_ready() -> None:
    async with proxy_with() as proxy:
        session = await proxy.session(talk(10))
        applied = await session.apply(
            Checkpoint(9, Treatments(), 900, 9, "text", "## Goal\n- g", summarised_until=9)
        )
        await prepare(proxy, session, 9)

        assert await ready_summary(session, applied) is None
        assert not covers_more(summary(9), applied)
        assert not covers_more(None, applied)
        assert covers_more(summary(11), applied)


async def test_a_summary_that_covers_what_was_only_noted_is_ready() -> None:
    async with proxy_with() as proxy:
        session = await proxy.session(talk(10))
        applied = await session.apply(
            Checkpoint(13, Treatments(), 900, 13, "notes", "", summarised_until=0)
        )
        await prepare(proxy, session, 9)

        assert await ready_summary(session, applied) == summary(9)


async def test_a_summary_is_written_in_the_background_and_is_ready_then() -> None:
    async with proxy_with() as proxy:
        draft = await proxy.draft(talk(10))

        task = await start_summary(draft, Span(1, 15), 5_000, proxy.summaries)

        assert task is not None
        assert await running_summary(draft.session, proxy.summaries) is task
        written = await task
        assert written is not None
        assert (written.summarised_until, written.folded_until, written.text) == (15, 15, "")
        assert written.summary.startswith("## Goal")
        assert await running_summary(draft.session, proxy.summaries) is None
        again = await proxy.session(talk(10))
        assert await ready_summary(again, await again.apply(None)) == written


async def test_the_same_summary_is_written_once_for_all_who_need_it() -> None:
    async with proxy_with() as proxy:
        one, two = await proxy.draft(talk(10)), await proxy.draft(talk(10))

        first = await start_summary(one, Span(1, 15), 5_000, proxy.summaries)
        second = await start_summary(two, Span(1, 15), 5_000, proxy.summaries)

        assert first is second
        assert first is not None
        await first
        assert len(proxy.writer.asked) == 1


async def test_a_span_below_a_tenth_of_the_trigger_is_not_worth_a_summary() -> None:
    async with proxy_with() as proxy:
        draft = await proxy.draft(talk(10))

        assert await start_summary(draft, Span(1, 2), 5_000, proxy.summaries) is None
        assert proxy.writer.asked == []


async def test_soon_after_a_failure_none_is_tried() -> None:
    async with proxy_with(Writer(lambda _: "no")) as proxy:
        draft = await proxy.draft(talk(10))
        task = await start_summary(draft, Span(1, 15), 5_000, proxy.summaries)
        assert task is not None
        assert await task is None

        assert await start_summary(draft, Span(1, 15), 5_000, proxy.summaries) is None


async def test_a_job_is_known_by_its_tenant_its_history_and_the_user_s_wish() -> None:
    async with proxy_with() as proxy:
        plain = await proxy.draft(talk(10))
        wished = await proxy.draft(talk(10), wish="keep the names")

        job = job_of(plain, Span(1, 15), 5_000, proxy.summaries)

        assert job.scope == plain.session.compaction.scope
        assert job.link == plain.session.history.link_at(15)
        assert (job.start, job.tokens, job.wish) == (0, 5_000, "")
        assert job_of(wished, Span(1, 15), 5_000, proxy.summaries).wish == "keep the names"
