"""One compaction: the form that is taken, the summary that it uses, and what is kept of it."""

from dataclasses import replace
from typing import Any

import pytest

from chat_proxy.compaction.summary.fold_text import NO_SUMMARY, TITLE
from chat_proxy.compaction.summary.marker import find_returned
from chat_proxy.proxy.compacting.compact import compact, compact_idle, compact_to_smallest
from chat_proxy.proxy.session.request import CompactionResult
from chat_proxy.proxy.session.session import CompactionSession
from tests.journeys.summaries.in_process import Writer
from tests.unit.chat.shapes import Fields, says, system, user
from tests.unit.compaction.examples import tool_step
from tests.unit.proxy.sessions import Proxy, proxy_with

pytestmark = pytest.mark.anyio

LINE = "The quick brown fox {} jumps over the lazy dog {} in the morning of day {}. "


def line(number: int, times: int = 6) -> str:
    return "".join(LINE.format(number, number * 7 + part, part) for part in range(times))


def talk(turns: int) -> list[Fields]:
    messages = [
        message
        for number in range(turns)
        for message in (user(f"Question {number}? {line(number)}"), says(line(number + 500)))
    ]
    return [system("Be nice."), *messages, user("And now?")]


def run(steps: int, times: int = 30) -> list[Fields]:
    made = [
        message
        for number in range(steps)
        for message in tool_step(
            f"s{number}", "read_file", line(number, times), path=f"{number}.py"
        )
    ]
    return [system("Be nice."), user("Fix the parser."), *made]


async def compacted(
    proxy: Proxy, messages: list[Fields], **fields: Any
) -> tuple[CompactionSession, CompactionResult]:
    session = await proxy.session(messages, **fields)
    applied = await session.apply(await session.find())
    outcome = await session.outcome(applied)
    result = await compact(session, applied, outcome, proxy.services.compaction)
    return session, result


async def test_below_the_trigger_nothing_is_done() -> None:
    async with proxy_with() as proxy:
        session, result = await compacted(proxy, talk(5))

        assert result is session.trimmed


async def test_while_the_prompt_fits_nobody_waits_and_the_summary_is_used_later() -> None:
    """DESIGN 1.13"""
    async with proxy_with() as proxy:
        session, first = await compacted(proxy, talk(24))
        assert session.budget.trigger < first.token_count.tokens < session.budget.limit
        _, task = next(iter(proxy.summaries.jobs._running.values()))
        await task

        _, second = await compacted(proxy, [*talk(24), says("Well."), user("Go on.")])

        assert (first.label, first.steps) == ("none", ())
        assert (second.label, second.stages) == ("reused", ("summary",))
        assert second.is_break
        assert second.token_count.tokens <= session.budget.trigger
        assert second.conversation.fields[1]["content"].startswith(TITLE)


async def test_what_does_not_fit_waits_for_its_summary() -> None:
    async with proxy_with() as proxy:
        session, result = await compacted(proxy, talk(60))

        assert result.label == "built"
        assert len(proxy.writer.asked) >= 1
        assert result.token_count.tokens <= session.budget.limit
        assert NO_SUMMARY not in result.conversation.fields[1]["content"]


async def test_without_a_usable_summary_notes_stand_for_the_messages() -> None:
    async with proxy_with(Writer(lambda _: "no")) as proxy:
        session, result = await compacted(proxy, talk(60))

        folded = result.conversation.fields[1]["content"]
        assert result.label == "failed-open"
        assert NO_SUMMARY in folded
        assert folded.count("\n#") > 10
        assert result.token_count.tokens <= session.budget.limit


async def test_where_summaries_are_off_notes_are_no_failure() -> None:
    async with proxy_with(summary={"enabled": False}) as proxy:
        _, result = await compacted(proxy, talk(60))

        assert result.label == "built"
        assert proxy.writer.asked == []


async def test_a_decision_is_kept_and_repeated_to_the_byte() -> None:
    """BUGS 21, 44"""
    async with proxy_with(summary={"enabled": False}) as proxy:
        _, first = await compacted(proxy, talk(60))
        grown = await proxy.session([*talk(60), says("Well."), user("Go on.")])

        repeated = (await grown.apply(await grown.find())).visible

        sent = list(first.conversation.fields)
        assert list(repeated.fields[: len(sent)]) == sent


async def test_the_folded_text_is_signed_and_names_the_place_of_the_originals() -> None:
    async with proxy_with(summary={"enabled": False}) as proxy:
        session, result = await compacted(proxy, talk(60))

        returned = find_returned(result.conversation, session.sign)
        assert returned is not None
        place = returned.text.rpartition("offload id ")[2].rstrip("]")
        stored = await proxy.services.compaction.offloads.find("t", place)
        assert stored is not None
        assert stored.count("\n") + 1 == returned.covered
        assert "Question 0?" in stored


async def test_old_results_of_a_long_run_age_and_the_newest_two_stay_whole() -> None:
    async with proxy_with(
        summary={"enabled": False}, prune={"protect_tokens": 0, "minimum_tokens": 0}
    ) as proxy:
        messages = run(9)
        session, result = await compacted(proxy, messages)

        assert result.token_count.tokens <= session.budget.limit
        assert result.conversation.fields[-1] == messages[-1]
        assert result.conversation.fields[-3] == messages[-3]
        assert user("Fix the parser.") in result.conversation.fields
        assert result.plan is not None
        assert {group.treatment for group in result.plan.groups} > {"whole"}


async def test_what_cannot_fit_goes_on_unchanged_and_says_why() -> None:
    """DESIGN 1.11"""
    async with proxy_with() as proxy:
        messages = [system(line(1, 600)), user("hi")]
        session, result = await compacted(proxy, messages)

        assert result.conversation is session.compaction.conversation
        assert result.label == "failed-open"
        assert result.unfit.startswith("instructions and tools alone take ")
        assert result.unfit.endswith(" of 8,000 tokens")


async def test_a_dry_run_stores_nothing_and_asks_nobody() -> None:
    async with proxy_with() as proxy:
        session = await proxy.session(talk(60))
        dry = session.compaction._replace(is_dry_run=True)
        session = replace(session, compaction=dry)

        applied = await session.apply(None)
        result = await compact(session, applied, session.trimmed, proxy.services.compaction)

        assert result.plan is not None
        assert result.token_count.tokens <= session.budget.limit
        assert proxy.writer.asked == []
        assert await session.find(anew=True) is None


async def test_the_smallest_form_has_only_the_request_and_its_newest_step() -> None:
    async with proxy_with(summary={"enabled": False}) as proxy:
        session = await proxy.session(run(9))
        applied = await session.apply(None)

        result = await compact_to_smallest(
            session, applied, session.trimmed, proxy.services.compaction
        )

        roles = [fields["role"] for fields in result.conversation.fields]
        assert roles == ["system", "user", "assistant", "user", "assistant", "tool"]
        assert result.token_count.tokens < 500
        assert result.plan is not None
        assert result.plan.form == "smallest"


async def test_an_idle_conversation_ages_below_the_trigger_if_that_saves_enough() -> None:
    prune = {"protect_tokens": 0, "protect_turns": 0, "minimum_tokens": 100, "keep_results": 0}
    async with proxy_with(prune=prune) as proxy:
        session = await proxy.session(run(4))
        applied = await session.apply(None)

        result = await compact_idle(session, applied, session.trimmed, proxy.services.compaction)

        assert result.stages == ("age_tool_output",)
        assert result.token_count.tokens < session.trimmed.token_count.tokens - 100
    async with proxy_with(prune={**prune, "minimum_tokens": 90_000}) as proxy:
        session = await proxy.session(run(4))
        applied = await session.apply(None)

        again = await compact_idle(session, applied, session.trimmed, proxy.services.compaction)

        assert again is session.trimmed
