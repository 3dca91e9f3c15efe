"""An agent's run: one user message, then hundreds of steps, all of them one turn."""

from collections.abc import Iterator

import pytest

from tests.journeys.trimming.growing import (
    Client,
    client_of,
    fake,
    has_whole_pairs,
    is_line,
    lines_in,
    listening,
    output,
    results_of,
    step,
)
from tests.unit.chat.shapes import Fields, image, system, text, user

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

WINDOW = 64_000
TRIGGER = 44_800
LIMIT = 62_000
STEPS = 300
TASK = user([text("Find out why the tests fail — and fix it. ünïcödé"), image()])
SYSTEM = system("You are an agent. " * 20)


def steps() -> Iterator[list[Fields]]:
    """Yield the steps; every seventh calls three tools at once."""
    for number in range(STEPS):
        size = 300 + 50 * (number % 9)
        several = 3 if number % 7 == 0 else 1
        contents = (output(size // several, f"{number}.{part}") for part in range(several))
        yield step(str(number), *contents)


async def run(client: Client, every: int = 5) -> list[Fields]:
    """Send the run as it grows, every so many steps; return all of it."""
    messages = [SYSTEM, TASK]
    for number, made in enumerate(steps(), 1):
        messages += made
        if number % every == 0:
            await client.ask(messages)
    return messages


async def test_the_older_steps_of_a_long_run_age_and_nothing_is_torn() -> None:
    """BUGS 1, 2, 24: no orphans, parallel results stay together, the task is never lost.

    When lines alone fill the window, the oldest steps are folded into notes.
    """
    async with (
        fake() as model,
        client_of(model, WINDOW, vision={"truncate_history": False}) as client,
    ):
        with listening() as log:
            sent = await run(client)
            compactions = await log.compactions(len(client.asked))

    task = client.asked[0].prompt.partition(b'"role":"user"')[2].partition(b'"role"')[0]
    for asked in client.asked:
        assert asked.messages[0] == SYSTEM
        assert TASK in asked.messages
        assert asked.prompt.count(task) == 1
        assert has_whole_pairs(asked.messages)
        assert asked.tokens[1] <= LIMIT
    assert client.broken() == compactions
    results = results_of(client.asked[-1].messages)
    newest = results_of(sent)[-20:]
    assert lines_in(client.asked[-1].messages)
    assert results[-20:] == newest


async def test_while_lines_fit_no_step_of_a_run_is_folded() -> None:
    async with (
        fake() as model,
        client_of(model, WINDOW, vision={"truncate_history": False}) as client,
    ):
        sent = await run(client)

    unfolded = [asked for asked in client.asked if "summary" not in asked.stages]
    aged = unfolded[-1]
    given = results_of(sent)[: len(results_of(aged.messages))]
    pairs = list(zip(given, results_of(aged.messages), strict=True))
    assert len(unfolded) > len(client.asked) * 2 // 3
    assert len(lines_in(aged.messages)) > len(pairs) // 2
    assert all(got == whole or is_line(got) for whole, got in pairs)
    assert all(is_line(got) or len(whole) < 1_000 for whole, got in pairs[:200])


async def test_a_run_is_compacted_seldom_and_well() -> None:
    """BUGS 7, 10, 22: a compaction ends twenty requests of growth below the trigger."""
    async with (
        fake() as model,
        client_of(model, WINDOW, vision={"truncate_history": False}) as client,
    ):
        with listening() as log:
            await run(client, every=10)
            compactions = await log.compactions(len(client.asked))

    added = client.asked[-1].tokens[0]
    after = {asked.headers["x-request-id"]: asked.tokens[1] for asked in client.asked}
    assert added > 3 * TRIGGER
    assert 2 <= len(compactions) <= added / (TRIGGER / 3) + 1
    assert TRIGGER * 0.5 <= after[compactions[0]] <= TRIGGER * 0.7


async def test_what_the_model_has_not_seen_yet_is_never_aged() -> None:
    """The newest group stays whole even if it alone is over the trigger."""
    given = [SYSTEM, TASK]
    for number in range(30):
        given += step(f"old-{number}", output(500, number))
    newest = step("new", *(output(9_000, f"new-{number}") for number in range(5)))

    async with fake() as model, client_of(model, WINDOW) as client:
        asked = await client.ask([*given, *newest])

    assert asked.tokens[0] > TRIGGER
    assert asked.messages[-6:] == newest
    assert lines_in(asked.messages)[:25] == [*range(25)]
    assert has_whole_pairs(asked.messages)


async def test_a_run_that_sends_a_user_message_halfway_keeps_both() -> None:
    """BUGS 24: a word of the user in the middle of a run is part of its question."""
    interruption = user("Stop. Only look at src/ please.")
    given = [SYSTEM, TASK]
    for number in range(60):
        given += step(f"a-{number}", output(600, number))
    given.append(interruption)
    for number in range(60):
        given += step(f"b-{number}", output(600, number))

    async with (
        fake() as model,
        client_of(model, WINDOW, vision={"truncate_history": False}) as client,
    ):
        asked = await client.ask(given)

    kept = [message for message in asked.messages if message["role"] == "user"]
    assert kept == [TASK, interruption]
    assert lines_in(asked.messages)
    assert has_whole_pairs(asked.messages)
