"""Without summaries old tool results age over the trigger: shortened first, then one line each."""

import json

import pytest

from tests.journeys.counting.pictures import image, png
from tests.journeys.trimming.growing import (
    CLEARED,
    client_of,
    fake,
    has_whole_pairs,
    history,
    is_line,
    is_short,
    lines_in,
    output,
    results_of,
    short_in,
    step,
)
from tests.unit.chat.shapes import Fields, says, system, text, user

pytestmark = pytest.mark.anyio

SMALL = 8_192  # trigger 5,734; at most 2,048 tokens of tool output stay; least gain: 1,024
MIDDLE = 32_000  # trigger 22,400; stay: 8,000; least gain: 4,000
LARGE = 200_000  # trigger 144,000; stay: 40,000; least gain: 20,000
TRIGGERS = {SMALL: 5_734, MIDDLE: 22_400, LARGE: 144_000}


def agent_run(*sizes: int) -> list[Fields]:
    """Return one user message and a step with a result of each size, in tokens."""
    steps = (step(str(number), output(size, number)) for number, size in enumerate(sizes))
    return [system(), user("Find it"), *(message for each in steps for message in each)]


async def test_over_the_trigger_one_line_is_left_of_old_results_and_the_newest_stay() -> None:
    """BUGS 1: the calls of these results stay, and so does every id."""
    given = [*history(14), user("next")]

    async with fake() as model, client_of(model, SMALL) as client:
        asked = await client.ask(given)

    assert lines_in(asked.messages) == [0, 1, 3, 4, 5, 6, 7, 8]
    assert results_of(asked.messages)[9:] == results_of(given)[9:]
    assert has_whole_pairs(asked.messages)
    assert len(asked.messages) == len(given)
    assert asked.stages == ["age_tool_output"]
    assert asked.tokens[0] > TRIGGERS[SMALL] > asked.tokens[1]


async def test_a_line_says_what_was_called_and_what_came_back() -> None:
    """It begins with the placeholder that models know, and is never that alone."""
    given = [*history(14), user("next")]

    async with fake() as model, client_of(model, SMALL) as client:
        asked = await client.ask(given)

    line, whole = results_of(asked.messages)[3], results_of(given)[3]
    assert line.startswith(f"{CLEARED} read(path: src/3.0.py) → {len(whole):,} chars; ")
    assert "line 0 of the output of 3 … line 36 of the output of 3" in line
    assert "[offload id: " in line


async def test_results_are_shortened_as_far_as_needed_before_any_becomes_a_line() -> None:
    """The oldest first; a shortened result keeps its head and its tail."""
    given = [*history(17, 9_000), user("next")]

    async with fake() as model, client_of(model, LARGE) as client:
        asked = await client.ask(given)

    short = short_in(asked.messages)
    results = results_of(asked.messages)
    assert lines_in(asked.messages) == []
    assert short == [0, 1, *range(3, max(short) + 1)]
    assert all(results[at].startswith(f"line 0 of the output of {at}\n") for at in short)
    assert all(results[at].endswith(f"line 900 of the output of {at}") for at in short)


async def test_lines_come_oldest_first_where_short_results_are_still_too_many() -> None:
    given = agent_run(*[2_500] * 14)

    async with fake() as model, client_of(model, MIDDLE, prune={"protect_tokens": 0}) as client:
        asked = await client.ask(given)

    lines, short = lines_in(asked.messages), short_in(asked.messages)
    assert lines == [*range(len(lines))]
    assert short == [*range(len(lines), 12)]
    assert lines
    assert short


@pytest.mark.parametrize(("window", "tokens"), [(MIDDLE, 2_500), (LARGE, 9_000)])
async def test_results_age_only_as_far_as_the_target(window: int, tokens: int) -> None:
    """A run that grows fast is brought to half of the trigger: no further, and nearly there."""
    given = agent_run(*[tokens] * (TRIGGERS[window] // tokens + 6))

    async with fake() as model, client_of(model, window, prune={"protect_tokens": 0}) as client:
        asked = await client.ask(given)

    target = TRIGGERS[window] // 2
    assert asked.tokens[0] > TRIGGERS[window]
    assert target * 0.85 < asked.tokens[1] <= target * 1.02


async def test_the_newest_two_steps_stay_whole() -> None:
    """Even if they alone are over the target, and all tool output may age."""
    given = agent_run(*[300] * 4, *[2_000] * 3)

    async with (
        fake() as model,
        client_of(model, SMALL, prune={"protect_tokens": 0, "minimum_tokens": 0}) as client,
    ):
        asked = await client.ask(given)

    assert asked.tokens[0] > TRIGGERS[SMALL]
    assert results_of(asked.messages)[-2:] == results_of(given)[-2:]
    assert lines_in(asked.messages) == [0, 1, 2, 3, 4]


async def test_results_below_250_tokens_stay() -> None:
    """A line would save next to nothing, and a short result is often the one that matters."""
    sizes = [200, 600] * 8
    given = agent_run(*sizes)

    async with fake() as model, client_of(model, SMALL, prune={"protect_tokens": 0}) as client:
        asked = await client.ask(given)

    assert lines_in(asked.messages)
    assert all(sizes[number] == 600 for number in lines_in(asked.messages))
    assert short_in(asked.messages) == []


async def test_nothing_but_the_content_of_old_results_changes() -> None:
    """BUGS 42: names, ids and fields that nobody knows stay in aged messages too."""
    given = [*history(14), user("next")]
    for message in given:
        message["metadata"] = {"of": message["role"]}

    async with fake() as model, client_of(model, SMALL) as client:
        asked = await client.ask(given)

    assert lines_in(asked.messages)
    for sent, got in zip(given, asked.messages, strict=True):
        assert {**got, "content": None} == {**sent, "content": None}
        assert got["content"] == sent["content"] or is_line(got["content"])


async def test_a_protected_tool_keeps_its_results() -> None:
    given = [*history(14), user("next")]

    async with (
        fake() as model,
        client_of(model, SMALL, prune={"protected_tools": ("read",)}) as client,
    ):
        asked = await client.ask(given)

    assert asked.tokens[0] > TRIGGERS[SMALL]
    assert asked.upstream == asked.body


async def test_below_the_trigger_nothing_happens() -> None:
    async with fake() as model, client_of(model, SMALL) as client:
        asked = await client.ask([*history(11), user("next")])

    assert TRIGGERS[SMALL] * 0.85 < asked.tokens[0] < TRIGGERS[SMALL]
    assert asked.upstream == asked.body


async def test_a_gain_below_the_minimum_is_not_worth_a_break() -> None:
    """BUGS 22: ageing a little just below the limit would break the cache again every turn."""
    given = [system(output(2_400, "rules")), *history(8)[1:], user(output(500, "question"))]

    async with fake() as model, client_of(model, SMALL) as client:
        small = await client.ask(given)
    async with fake() as model, client_of(model, SMALL, prune={"minimum_tokens": 300}) as client:
        enough = await client.ask(given)

    assert small.tokens[0] > TRIGGERS[SMALL]
    assert small.upstream == small.body
    assert lines_in(enough.messages) == [0, 1]


async def test_less_than_a_tenth_is_not_worth_a_break() -> None:
    """BUGS 22: one old image of a thousand tokens is not."""
    pictures = [user([text(f"Look at {number}"), image(png(64, 64))]) for number in range(2)]
    given = [pictures[0], says("I see"), pictures[1], says(output(20_500, "answer")), user("next")]

    async with (
        fake() as model,
        client_of(model, MIDDLE, vision={"truncate_history": False}) as client,
    ):
        asked = await client.ask(given)

    assert TRIGGERS[MIDDLE] < asked.tokens[0] < 30_000
    assert asked.upstream == asked.body


async def test_all_numbers_grow_with_the_window() -> None:
    """The same conversation four times as long ages to the same place in a window of 32,000."""
    given = [*history(14, 1_440), user("next")]

    async with fake() as model, client_of(model, MIDDLE) as client:
        asked = await client.ask(given)

    assert lines_in(asked.messages) == [0, 1, 3, 4, 5, 6, 7, 8]


@pytest.mark.timeout(600)
async def test_in_a_large_window_the_numbers_are_the_documented_ones() -> None:
    """40,000 tokens of tool output stay, however large the window is."""
    given = [*history(17, 9_000), user("next")]

    async with fake() as model, client_of(model, LARGE) as client:
        asked = await client.ask(given)

    kept = len(results_of(given)) - max(short_in(asked.messages)) - 1
    each = asked.tokens[0] // 17
    assert asked.tokens[0] > TRIGGERS[LARGE]
    assert (kept + 1) * each > 40_000 > (kept - 1) * each


async def test_protected_tokens_that_are_set_are_taken_literally() -> None:
    """Not a quarter of the window at most, as without the setting."""
    given = agent_run(*[360] * 15)

    async with fake() as model, client_of(model, SMALL, prune={"protect_tokens": 4_100}) as client:
        more = await client.ask(given)
    async with fake() as model, client_of(model, SMALL) as client:
        default = await client.ask(given)

    assert 0 < len(lines_in(more.messages)) <= 6
    assert len(lines_in(default.messages)) >= 9


async def test_an_aged_prompt_stays_json_of_the_same_shape() -> None:
    given = agent_run(*[2_500] * 40)

    async with fake() as model, client_of(model, MIDDLE) as client:
        asked = await client.ask(given)

    kinds = [is_line(told) + 2 * is_short(told) for told in results_of(asked.messages)]
    assert {0, 1} <= set(kinds)
    assert 3 not in kinds
    assert json.loads(asked.upstream).keys() == json.loads(asked.body).keys()


async def test_switched_off_nothing_ages() -> None:
    """BUGS 41."""
    async with fake() as model, client_of(model, SMALL, prune={"enabled": False}) as client:
        asked = await client.ask([*history(14), user("next")])

    assert asked.tokens[0] > TRIGGERS[SMALL]
    assert asked.upstream == asked.body
