"""What was decided about old tool results is repeated to the byte, by whom it concerns alone."""

from pathlib import Path
from typing import Any

import pytest

from tests.journeys.trimming.growing import (
    Client,
    client_of,
    fake,
    has_whole_pairs,
    history,
    is_line,
    lines_in,
    listening,
    output,
    results_of,
    short_in,
    step,
    turn,
)
from tests.unit.chat.shapes import Fields, says, text, user

pytestmark = pytest.mark.anyio

SMALL = 8_192  # trigger 5,734; at most 2,048 tokens of tool output stay


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
async def test_a_grown_request_repeats_the_lines_to_the_byte(separators: tuple[str, str]) -> None:
    """BUGS 21: pruning must not wipe the prompt cache on every request; BUGS 44."""
    given = [*history(14), user("next")]

    async with fake() as model, client_of(model, SMALL) as client:
        client.separators = separators
        first = await client.ask(given)
        again = await client.ask(given)
        for number in range(3):
            given += [*step(f"more-{number}", output(150, number)), says("ok"), user("go on")]
            await client.ask(given)
        with listening() as log:
            last = await client.ask([*given, says("ok"), user("go on")])
            assert not await log.was_compacted_anew(last)

    assert lines_in(first.messages)
    assert again.upstream == first.upstream
    assert client.broken() == []
    assert has_whole_pairs(last.messages)


async def test_a_second_proxy_on_the_same_file_repeats_them(tmp_path: Path) -> None:
    given = [*history(14), user("next")]
    grown = [*given, *step("more", output(150)), says("ok"), user("and?")]

    async with (
        fake() as model,
        client_of(model, SMALL, store=tmp_path) as one,
        client_of(model, SMALL, store=tmp_path) as other,
    ):
        with listening() as log:
            first = await one.ask(given)
            second = await other.ask(grown)
            third = await one.ask([*grown, says("ok"), user("really?")])
            compactions = await log.compactions(3)

    assert compactions == [first.headers["x-request-id"]]
    assert first.begins(second)
    assert second.begins(third)


async def test_after_a_restart_they_are_repeated(tmp_path: Path) -> None:
    """BUGS 37: what was decided outlives the process."""
    given = [*history(14), user("next")]
    grown = [*given, *step("more", output(150)), says("ok"), user("and?")]

    async with fake() as model:
        async with client_of(model, SMALL, store=tmp_path) as client:
            first = await client.ask(given)
        with listening() as log:
            async with client_of(model, SMALL, store=tmp_path) as client:
                second = await client.ask(grown)
            compactions = await log.compactions(1)

    assert lines_in(first.messages)
    assert compactions == []
    assert first.begins(second)


async def test_shortened_results_keep_their_size_after_a_restart(tmp_path: Path) -> None:
    given = [*history(17, 9_000), user("next")]
    grown = [*given, *step("more", output(150)), says("ok"), user("and?")]

    async with fake() as model:
        async with client_of(model, 200_000, store=tmp_path) as client:
            first = await client.ask(given)
        async with client_of(model, 200_000, store=tmp_path) as client:
            second = await client.ask(grown)

    assert short_in(first.messages)
    assert first.begins(second)


async def decided_anew(
    client: Client, given: list[Fields], other: list[Fields], *headers: str
) -> tuple[bool, list[int], list[int]]:
    """Return whether another history is decided anew, and the lines of the first and of it."""
    first = await client.ask(given)
    client.headers = headers or client.headers
    with listening() as log:
        second = await client.ask(other)
        anew = await log.was_compacted_anew(second)
    return anew, lines_in(first.messages), lines_in(second.messages)


def grown_from(given: list[Fields]) -> list[Fields]:
    """Return a history in which, decided anew, two more results would age."""
    return [*given, *turn("a", output(360, "a")), *turn("b", output(360, "b")), user("on")]


async def test_the_same_tenant_repeats_where_a_new_decision_would_differ() -> None:
    given = [*history(14), user("next")]

    async with fake() as model, client_of(model, SMALL, "authorization: Bearer one") as client:
        anew, before, after = await decided_anew(client, given, grown_from(given))

    assert not anew
    assert after == before


async def test_another_tenant_decides_for_itself() -> None:
    """BUGS 36: what was decided for one tenant is of no use to another."""
    given = [*history(14), user("next")]
    other = "authorization: Bearer two"

    async with fake() as model, client_of(model, SMALL, "authorization: Bearer one") as client:
        anew, before, after = await decided_anew(client, given, grown_from(given), other)

    assert anew
    assert after == [*before, 9, 10]


EDITS: dict[str, Any] = {
    "question": (1, user("Please do it differently")),
    "result": (3, {"role": "tool", "tool_call_id": "call-0.0-0", "content": "nothing at all"}),
}


@pytest.mark.parametrize("edit", EDITS)
async def test_an_edited_history_is_another_one(edit: str) -> None:
    """BUGS 36: a conversation is its content, not its model and system prompt."""
    given = [*history(14), user("next")]
    place, message = EDITS[edit]
    edited = grown_from(given)
    edited[place] = message

    async with fake() as model, client_of(model, SMALL) as client:
        anew, before, after = await decided_anew(client, given, edited)

    assert anew
    assert after != before


async def test_another_model_decides_for_itself() -> None:
    given = [*history(14), user("next")]

    async with fake() as model, client_of(model, SMALL) as client:
        await client.ask(given)
        client.fields = {"model": "another"}
        with listening() as log:
            asked = await client.ask(given)
            assert await log.was_compacted_anew(asked)


def with_lists(messages: list[Fields]) -> list[Fields]:
    return [
        {**message, "content": [text(message["content"])]} if message["role"] == "user" else message
        for message in messages
    ]


async def test_a_cache_mark_that_moves_does_not_break_reuse() -> None:
    """BUGS 40: the mark stays where the client put it, and the history is known all the same."""
    given = with_lists([*history(14), user("next")])
    grown = with_lists(grown_from([*history(14), user("next")]))
    early, late = 5, len(grown) - 1
    given[early]["content"][0]["cache_control"] = {"type": "ephemeral"}
    grown[late]["content"][0]["cache_control"] = {"type": "ephemeral"}

    async with fake() as model, client_of(model, SMALL) as client:
        anew, before, after = await decided_anew(client, given, grown)

    assert max(before) > 2
    assert not anew
    assert before == after
    marked = [
        [at for at, message in enumerate(asked.messages) if "cache_control" in str(message)]
        for asked in client.asked
    ]
    assert marked == [[early], [late]]


async def test_a_mark_on_an_aged_result_stays() -> None:
    """BUGS 40."""
    given = [*history(14), user("next")]
    for message in given:
        if message["role"] == "tool":
            message["content"] = [text(message["content"], cache_control={"type": "ephemeral"})]

    async with fake() as model, client_of(model, SMALL) as client:
        asked = await client.ask(given)

    aged = [part for [part] in results_of(asked.messages) if is_line(part["text"])]
    assert len(aged) == 8
    assert all(part == text(part["text"], cache_control={"type": "ephemeral"}) for part in aged)
