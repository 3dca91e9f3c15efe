"""A conversation that was left alone has lost its cache anyway: old results age when it goes on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.counting.pictures import image, png
from tests.journeys.trimming.growing import (
    Asked,
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
    turn,
)
from tests.support.fake_model import FakeModel
from tests.unit.chat.shapes import Fields, says, system, text, user

pytestmark = pytest.mark.anyio

WINDOW = 64_000
TRIGGER = 44_800
MINUTE = 60.0


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def move(self, minutes: float) -> None:
        self.now += minutes * MINUTE


@asynccontextmanager
async def client_at(
    model: FakeModel, clock: Clock, *headers: str, store: Path | None = None, **prune: Any
) -> AsyncIterator[Client]:
    """Run a proxy that reads this clock and keeps as little as it may."""
    policy = {"protect_tokens": 0, "protect_turns": 1, "minimum_tokens": 2_000, **prune}
    sections = {"prune": policy, "vision": {"truncate_history": False}}
    async with client_of(model, WINDOW, *headers, store=store, **sections) as client:
        client.proxy.services.compaction.last_seen._clock = clock
        yield client


def picture(number: int) -> Fields:
    return image(png(40 + number, 40))


def history() -> list[Fields]:
    """Return four turns, each with an image of the user's, a skill's result and another.

    A skill's text always stays, and so do media.
    """
    messages = [system()]
    for number in range(4):
        shown = [text(f"How to do {number}"), picture(10 + number)]
        messages += [
            user([text(f"Look at {number}"), picture(number)]),
            *step(f"skill-{number}", shown, tool="skill"),
            *step(f"read-{number}", output(2_000, number)),
            says(f"Done with {number}"),
        ]
    return messages


def grown(messages: list[Fields], name: str) -> list[Fields]:
    return [*messages, says(f"Yes, {name}"), user(f"and {name}?")]


async def asked_after(client: Client, clock: Clock, minutes: float) -> tuple[list[Fields], Asked]:
    """Send a history, let the time pass, and send it again with a word more."""
    first = [*history(), user("next")]
    await client.ask(first)
    clock.move(minutes)
    later = grown(first, "later")
    return later, await client.ask(later)


async def test_after_the_pause_a_conversation_ages_below_the_trigger() -> None:
    clock = Clock()

    async with fake() as model, client_at(model, clock) as client:
        given, asked = await asked_after(client, clock, 61)

    assert client.asked[0].upstream == client.asked[0].body
    assert asked.tokens[0] < TRIGGER
    assert asked.tokens[1] <= asked.tokens[0] - 2_000
    assert asked.stages == ["age_tool_output"]
    assert len(asked.messages) == len(given)
    assert has_whole_pairs(asked.messages)


async def test_the_newest_result_the_media_and_a_skills_words_stay() -> None:
    clock = Clock()

    async with fake() as model, client_at(model, clock) as client:
        given, asked = await asked_after(client, clock, 61)

    plain = [content for content in results_of(asked.messages) if type(content) is str]
    assert [is_line(content) for content in plain] == [True, True, True, False]
    assert plain[3] == output(2_000, 3)
    assert [m for m in asked.messages if m["role"] == "user"] == [
        m for m in given if m["role"] == "user"
    ]
    skills = [content for content in results_of(asked.messages) if type(content) is list]
    assert skills == [content for content in results_of(given) if type(content) is list]
    assert asked.messages[-2:] == given[-2:]


async def test_images_stay_beside_the_line_of_an_old_result() -> None:
    clock = Clock()
    messages = [system()]
    for number in range(5):
        messages += turn(str(number), [text(output(2_000, number)), picture(number)])

    async with fake() as model, client_at(model, clock) as client:
        await client.ask([*messages, user("next")])
        clock.move(61)
        asked = await client.ask(grown([*messages, user("next")], "later"))

    assert asked.stages == ["age_tool_output"]
    for before, after in zip(results_of(messages), results_of(asked.messages), strict=True):
        assert after[-1] == before[-1]
        assert len(after) == len(before)
    assert is_line(results_of(asked.messages)[0][0]["text"])


async def test_a_protected_result_does_not_take_the_place_of_the_newest_other() -> None:
    """What stays anyway must not count among the newest that are to be kept."""
    clock = Clock()
    messages = [system()]
    for number in range(5):
        messages += turn(str(number), output(2_000, number))
    messages += turn("skill", "How to do it", tool="skill")

    async with fake() as model, client_at(model, clock) as client:
        await client.ask([*messages, user("next")])
        clock.move(61)
        asked = await client.ask(grown([*messages, user("next")], "later"))

    assert lines_in(asked.messages) == [0, 1, 2, 3]
    assert results_of(asked.messages)[4:] == [output(2_000, 4), "How to do it"]


@pytest.mark.parametrize("keep", [1, 2, 3])
async def test_of_results_alone_as_many_stay_as_are_to_be_kept(keep: int) -> None:
    clock = Clock()
    messages = [system()]
    for number in range(5):
        messages += turn(str(number), output(2_000, number))

    async with fake() as model, client_at(model, clock, keep_results=keep) as client:
        await client.ask([*messages, user("next")])
        clock.move(61)
        asked = await client.ask(grown([*messages, user("next")], "later"))

    assert lines_in(asked.messages) == [*range(5 - keep)]
    assert results_of(asked.messages)[-keep:] == results_of(messages)[-keep:]


async def test_it_ages_once_and_then_stays_as_it_is() -> None:
    """BUGS 21: one break, where the cache was lost anyway."""
    clock = Clock()

    async with fake() as model, client_at(model, clock) as client:
        with listening() as log:
            given, aged = await asked_after(client, clock, 61)
            for number in range(4):
                clock.move(5)
                given = grown([*given, *step(f"more-{number}", output(300))], str(number))
                await client.ask(given)
            compactions = await log.compactions(6)

    assert compactions == [aged.headers["x-request-id"]]
    assert client.broken() == compactions


async def test_a_second_pause_that_would_win_too_little_changes_nothing() -> None:
    clock = Clock()

    async with fake() as model, client_at(model, clock) as client:
        with listening() as log:
            given, aged = await asked_after(client, clock, 61)
            clock.move(600)
            asked = await client.ask(grown(given, "much later"))
            compactions = await log.compactions(3)

    assert compactions == [aged.headers["x-request-id"]]
    assert aged.begins(asked)


@pytest.mark.parametrize("minutes", [0, 30, 59.9])
async def test_within_the_limit_nothing_happens(minutes: float) -> None:
    clock = Clock()

    async with fake() as model, client_at(model, clock) as client:
        _, asked = await asked_after(client, clock, minutes)

    assert asked.upstream == asked.body


async def test_every_request_begins_the_pause_anew() -> None:
    clock = Clock()

    async with fake() as model, client_at(model, clock) as client:
        given, _ = await asked_after(client, clock, 40)
        clock.move(40)
        asked = await client.ask(grown(given, "again"))

    assert asked.upstream == asked.body


@pytest.mark.parametrize("prune", [{"idle_minutes": 0}, {"enabled": False}])
async def test_switched_off_no_pause_is_too_long(prune: dict[str, Any]) -> None:
    """BUGS 41."""
    clock = Clock()

    async with fake() as model, client_at(model, clock, **prune) as client:
        _, asked = await asked_after(client, clock, 100_000)

    assert asked.upstream == asked.body


async def test_the_limit_is_a_setting() -> None:
    clock = Clock()

    async with fake() as model, client_at(model, clock, idle_minutes=5) as client:
        _, asked = await asked_after(client, clock, 6)

    assert lines_in(asked.messages)


async def test_a_pause_that_wins_too_little_changes_nothing() -> None:
    """BUGS 22."""
    clock = Clock()

    async with fake() as model, client_at(model, clock, minimum_tokens=20_000) as client:
        _, asked = await asked_after(client, clock, 61)

    assert asked.upstream == asked.body


async def test_the_pause_is_known_after_a_restart_and_so_is_what_was_aged(
    tmp_path: Path,
) -> None:
    clock = Clock()
    first = [*history(), user("next")]
    later = grown(first, "later")

    async with fake() as model:
        async with client_at(model, clock, store=tmp_path) as client:
            await client.ask(first)
        clock.move(61)
        async with client_at(model, clock, store=tmp_path) as client:
            aged = await client.ask(later)
        clock.move(1)
        with listening() as log:
            async with client_at(model, clock, store=tmp_path) as client:
                asked = await client.ask(grown(later, "again"))
            compactions = await log.compactions(1)

    assert lines_in(aged.messages)
    assert compactions == []
    assert aged.begins(asked)


async def test_a_restart_within_the_limit_changes_nothing(tmp_path: Path) -> None:
    clock = Clock()
    first = [*history(), user("next")]

    async with fake() as model:
        async with client_at(model, clock, store=tmp_path) as client:
            await client.ask(first)
        clock.move(10)
        async with client_at(model, clock, store=tmp_path) as client:
            asked = await client.ask(grown(first, "later"))

    assert asked.upstream == asked.body


async def test_what_another_tenant_sent_long_ago_says_nothing() -> None:
    """BUGS 36."""
    clock = Clock()

    async with fake() as model, client_at(model, clock, "authorization: Bearer one") as client:
        first = [*history(), user("next")]
        await client.ask(first)
        clock.move(61)
        client.headers = ("authorization: Bearer two",)
        asked = await client.ask(grown(first, "later"))

    assert asked.upstream == asked.body


async def test_a_conversation_that_nobody_has_seen_is_not_idle() -> None:
    clock = Clock()

    async with fake() as model, client_at(model, clock) as client:
        asked = await client.ask([*history(), user("next")])

    assert asked.upstream == asked.body
