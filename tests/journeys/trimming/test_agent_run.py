"""An agent's run: one user message, then hundreds of steps, all of them one turn."""

from collections.abc import Iterator

import pytest

from tests.journeys.trimming.growing import (
    CLEARED,
    Client,
    client_of,
    fake,
    has_whole_pairs,
    listening,
    output,
    results_of,
    step,
)
from tests.unit.chat.shapes import Fields, image, system, text, user

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

WINDOW = 64_000
TRIGGER = 38_400
LIMIT = 60_000
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


async def test_the_older_steps_of_a_long_run_are_cleared_and_nothing_is_torn() -> None:
    """BUGS 1, 2, 24: no orphans, parallel results stay together, the task is never lost."""
    async with (
        fake() as model,
        client_of(model, WINDOW, vision={"truncate_history": False}) as client,
    ):
        with listening() as log:
            sent = await run(client)
            compactions = await log.compactions(len(client.asked))

    task = client.asked[0].prompt.partition(b'"role":"user"')[2].partition(b'"role"')[0]
    for asked in client.asked:
        assert asked.messages[:2] == [SYSTEM, TASK]
        assert asked.prompt.count(task) == 1
        assert has_whole_pairs(asked.messages)
        assert asked.tokens[1] <= LIMIT
    last = client.asked[-1]
    results = results_of(last.messages)
    boundary = results.index(results_of(sent)[results.count(CLEARED)])
    assert len(last.messages) == len(sent)
    assert set(results[:boundary]) == {CLEARED}
    assert results[boundary:] == results_of(sent)[boundary:]
    assert boundary > STEPS * 2 // 3
    assert client.broken() == compactions


async def test_a_run_is_compacted_seldom_and_well() -> None:
    """BUGS 7, 10, 22: each compaction ends far below the trigger, so the next one is far away."""
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
    assert after[compactions[0]] <= TRIGGER * 0.6


async def test_what_the_model_has_not_seen_yet_is_never_cleared() -> None:
    """The newest group stays whole even if it alone is over the trigger."""
    given = [SYSTEM, TASK]
    for number in range(30):
        given += step(f"old-{number}", output(500, number))
    newest = step("new", *(output(9_000, f"new-{number}") for number in range(5)))

    async with fake() as model, client_of(model, WINDOW) as client:
        asked = await client.ask([*given, *newest])

    assert asked.tokens[0] > TRIGGER
    assert asked.messages[-6:] == newest
    assert results_of(asked.messages)[:25] == [CLEARED] * 25
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
    assert CLEARED in results_of(asked.messages)
    assert has_whole_pairs(asked.messages)
