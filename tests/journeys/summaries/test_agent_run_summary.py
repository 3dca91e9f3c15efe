"""An agent's run of four hundred steps behind one user message with an image."""

import asyncio
import json
from collections.abc import Iterator
from functools import cache

import pytest

from tests.journeys.summaries.talking import Talk, label, prose, talking
from tests.journeys.trimming.growing import Asked, has_whole_pairs, listening, step
from tests.support.strict_template import complaints
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields, image, system, text, user

pytestmark = pytest.mark.timeout(600)

WINDOW = 10_000
TRIGGER = 7_000
STEPS = 400
SYSTEM = system("You are an agent. " * 10)
TASK = user([text("Find out why tests/test_login.py fails, and fix it. ünïcödé"), image()])
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]


def steps() -> Iterator[list[Fields]]:
    """Yield steps with thoughts; every fifth calls three tools at once."""
    for number in range(STEPS):
        size = 100 + 50 * (number % 5)
        several = 3 if number % 5 == 0 else 1
        results = (prose(size // several, f"file {number}.{part}") for part in range(several))
        caller, *answers = step(str(number), *results)
        yield [{**caller, "reasoning_content": f"Step {number}: I look at it."}, *answers]


async def send_all(talk: Talk) -> None:
    """Send the run step by step."""
    talk.fields["tools"] = TOOLS
    messages = [SYSTEM, TASK]
    await talk.ask(messages)
    for made in steps():
        messages = [*messages, *made]
        await talk.ask(messages)


async def sending() -> tuple[SummaryModel, Talk, list[str]]:
    brain = SummaryModel(window=WINDOW)
    sections = {"vision": {"truncate_history": False}, "media": {"image_token_estimate": 1_000}}
    with listening() as log:
        async with talking(brain, window=WINDOW, **sections) as talk:
            await send_all(talk)
            compactions = await log.compactions(len(talk.asked))
    return brain, talk, compactions


@cache
def run() -> tuple[SummaryModel, Talk, list[str]]:
    """Hold the run once for all tests; return the model, the talk, and who was compacted."""
    return asyncio.run(sending())


def task_in(asked: Asked) -> list[Fields]:
    """Return the user messages that are not a summary."""
    users = [message for message in asked.messages if message["role"] == "user"]
    return [message for message in users if not isinstance(message["content"], str)]


def test_the_task_is_in_every_request_byte_for_byte() -> None:
    """BUGS 24, 31, 32: neither the user's words nor the image are ever lost or folded."""
    _, talk, _ = run()

    task = json.dumps(TASK, separators=(",", ":"), ensure_ascii=False).encode()
    assert len(talk.asked) == STEPS + 1
    for asked in talk.asked:
        assert asked.upstream.count(task) == 1
        assert task_in(asked) == [TASK]
        assert asked.messages[0] == SYSTEM


def test_pairs_are_whole_and_thoughts_stay_in_every_request() -> None:
    """BUGS 1, 2, 4, 19: parallel results stay with their calls, and strict templates take it."""
    _, talk, _ = run()

    for asked in talk.asked:
        assert has_whole_pairs(asked.messages)
        assert complaints(asked.messages) == []
        callers = [message for message in asked.messages if message.get("tool_calls")]
        assert all(message["reasoning_content"] for message in callers)


def test_the_newest_step_is_always_sent_as_it_is() -> None:
    """What the model has not seen yet is never folded."""
    _, talk, _ = run()

    for asked, made in zip(talk.asked[1:], steps(), strict=True):
        assert asked.messages[-len(made) :] == made


def test_the_prefix_breaks_at_compactions_only_and_those_are_few() -> None:
    """BUGS 7, 9, 10, 21: one break for each compaction, and each wins a lot."""
    brain, talk, compactions = run()

    added = talk.asked[-1].tokens[0]
    assert talk.broken() == compactions
    assert added > 8 * WINDOW
    assert 3 <= len(brain.summaries) <= added / (TRIGGER / 3) + 1
    assert len(compactions) <= added / (TRIGGER / 3) + 1


def test_no_request_of_the_run_is_over_the_window() -> None:
    """The model itself has counted, and refused nothing."""
    brain, talk, _ = run()

    assert brain.overflows == []
    assert all(label(asked) in ("none", "built", "reused") for asked in talk.asked)


def test_the_questions_for_a_summary_fit_strictly_and_carry_the_tools() -> None:
    """BUGS 11: prompt + max_tokens < window, and the tools are those of the cached prompt."""
    brain, _, _ = run()

    for question in brain.summaries:
        assert question.tokens + question.max_tokens < WINDOW
        assert question.fields["tools"] == TOOLS
        assert "tool_choice" not in question.fields


def test_a_requests_own_tools_are_always_sent() -> None:
    """BUGS 45: they are no part of what is kept, and come from the request itself."""
    brain, _, _ = run()

    assert all(chat.fields["tools"] == TOOLS for chat in brain.chats)


@pytest.mark.anyio
async def test_a_short_run_with_the_default_vision_settings_keeps_its_task() -> None:
    """Dropping older turns takes nothing from the current one, which is all there is."""
    brain = SummaryModel(window=WINDOW)
    given = [SYSTEM, TASK, *(message for made in list(steps())[:45] for message in made)]
    async with talking(brain, window=WINDOW) as talk:
        asked = await talk.ask(given)

    assert label(asked) == "built"
    assert task_in(asked) == [TASK]
    assert asked.messages[-1] == given[-1]
