"""Old tool results go when a request presses against its window, and stay gone to the byte."""

from pathlib import Path
from typing import Any

import pytest

from tests.journeys.counting.pictures import image, png
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
    turn,
)
from tests.unit.chat.shapes import Fields, says, system, text, user

pytestmark = pytest.mark.anyio

SMALL = 8_192  # trigger 4,915; stays: 2,048 tokens of tool output; least gain: 1,024
MIDDLE = 32_000  # trigger 19,200; stays: 8,000; least gain: 4,000


def history(turns: int, tokens: int = 360) -> list[Fields]:
    """Return finished turns with one result each; the third is a skill's."""
    messages = [system()]
    for number in range(turns):
        tool = "skill" if number == 2 else "read"
        messages += turn(str(number), output(tokens, number), tool=tool)
    return messages


def cleared_in(messages: list[Fields]) -> list[int]:
    return [at for at, content in enumerate(results_of(messages)) if content == CLEARED]


async def test_over_the_trigger_old_results_go_and_the_newest_stay() -> None:
    """BUGS 1: the calls of cleared results stay, and so does every id."""
    given = [*history(14), user("next")]

    async with fake() as model, client_of(model, SMALL) as client:
        asked = await client.ask(given)

    assert cleared_in(asked.messages) == [0, 1, 3, 4, 5, 6, 7, 8]
    assert results_of(asked.messages)[9:] == results_of(given)[9:]
    assert has_whole_pairs(asked.messages)
    assert len(asked.messages) == len(given)
    assert asked.stages == ["clear_old_tool_output"]
    assert asked.tokens[0] > 4_915 > asked.tokens[1]


async def test_nothing_but_the_content_of_old_results_changes() -> None:
    """BUGS 42: names, ids and fields that nobody knows stay in cleared messages too."""
    given = [*history(14), user("next")]
    for message in given:
        message["metadata"] = {"of": message["role"]}

    async with fake() as model, client_of(model, SMALL) as client:
        asked = await client.ask(given)

    cleared = cleared_in(asked.messages)
    assert cleared
    for sent, got in zip(given, asked.messages, strict=True):
        assert {**got, "content": None} == {**sent, "content": None}
        assert got["content"] in (sent["content"], CLEARED)


async def test_a_protected_tool_keeps_its_results() -> None:
    given = [*history(14), user("next")]

    async with (
        fake() as model,
        client_of(model, SMALL, prune={"protected_tools": ("read",)}) as client,
    ):
        asked = await client.ask(given)

    assert cleared_in(asked.messages) == []
    assert asked.upstream == asked.body


async def test_below_the_trigger_nothing_happens() -> None:
    async with fake() as model, client_of(model, SMALL) as client:
        asked = await client.ask([*history(9), user("next")])

    assert asked.tokens[0] < 4_915
    assert asked.upstream == asked.body


async def test_a_gain_below_the_minimum_is_not_worth_a_break() -> None:
    """BUGS 22: clearing a little just below the limit would break the cache again every turn."""
    given = [system(output(2_000, "rules")), *history(7)[1:], user(output(900, "question"))]

    async with fake() as model, client_of(model, SMALL) as client:
        small = await client.ask(given)
    async with fake() as model, client_of(model, SMALL, prune={"minimum_tokens": 300}) as client:
        enough = await client.ask(given)

    assert small.tokens[0] > 4_915
    assert small.upstream == small.body
    assert cleared_in(enough.messages) == [0, 1]


async def test_less_than_a_tenth_is_not_worth_a_break() -> None:
    """BUGS 22: one old image of a thousand tokens is not."""
    pictures = [user([text(f"Look at {number}"), image(png(64, 64))]) for number in range(2)]
    given = [pictures[0], says("I see"), pictures[1], says(output(18_500, "answer")), user("next")]

    async with (
        fake() as model,
        client_of(model, MIDDLE, vision={"truncate_history": False}) as client,
    ):
        asked = await client.ask(given)

    assert 19_200 < asked.tokens[0] < 30_000
    assert asked.upstream == asked.body


async def test_all_numbers_grow_with_the_window() -> None:
    """The same conversation four times as long is cut at the same place in a window of 32,000."""
    given = [*history(14, 1_440), user("next")]

    async with fake() as model, client_of(model, MIDDLE) as client:
        asked = await client.ask(given)

    assert cleared_in(asked.messages) == [0, 1, 3, 4, 5, 6, 7, 8]


@pytest.mark.timeout(60)
async def test_in_a_large_window_the_numbers_are_the_documented_ones() -> None:
    """40,000 tokens of tool output stay, however large the window is."""
    given = [*history(17, 9_000), user("next")]

    async with fake() as model, client_of(model, 200_000) as client:
        asked = await client.ask(given)

    kept = len(results_of(given)) - max(cleared_in(asked.messages)) - 1
    each = asked.tokens[0] // 17
    assert asked.tokens[0] > 144_000
    assert (kept + 1) * each > 40_000 > (kept - 1) * each


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
async def test_a_grown_request_repeats_the_cuts_to_the_byte(separators: tuple[str, str]) -> None:
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

    assert cleared_in(first.messages)
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

    assert cleared_in(first.messages)
    assert compactions == []
    assert first.begins(second)


async def decided_anew(
    client: Client, given: list[Fields], other: list[Fields], *headers: str
) -> tuple[bool, list[int], list[int]]:
    """Return whether another history is decided anew, and what was cleared in the first and it."""
    first = await client.ask(given)
    client.headers = headers or client.headers
    with listening() as log:
        second = await client.ask(other)
        anew = await log.was_compacted_anew(second)
    return anew, cleared_in(first.messages), cleared_in(second.messages)


def grown_from(given: list[Fields]) -> list[Fields]:
    """Return a history in which, decided anew, two more results would go."""
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
    "system": (0, system("Be rude")),
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


async def test_a_mark_on_a_cleared_result_stays() -> None:
    """BUGS 40."""
    given = [*history(14), user("next")]
    for message in given:
        if message["role"] == "tool":
            message["content"] = [text(message["content"], cache_control={"type": "ephemeral"})]

    async with fake() as model, client_of(model, SMALL) as client:
        asked = await client.ask(given)

    cleared = [content for content in results_of(asked.messages) if content[0]["text"] == CLEARED]
    assert len(cleared) == 8
    assert all(
        content == [text(CLEARED, cache_control={"type": "ephemeral"})] for content in cleared
    )


async def test_switched_off_nothing_is_cleared() -> None:
    """BUGS 41."""
    async with fake() as model, client_of(model, SMALL, prune={"enabled": False}) as client:
        asked = await client.ask([*history(14), user("next")])

    assert asked.upstream == asked.body
