"""While a client only appends, each prompt is a byte prefix of the next, but for compactions."""

from itertools import pairwise

import pytest

from tests.journeys.counting.pictures import image, png
from tests.journeys.trimming.growing import (
    Client,
    answer,
    answer_with_usage,
    client_of,
    fake,
    has_whole_pairs,
    listening,
    output,
    requests_of,
    step,
)
from tests.support.fake_model import Behaviour
from tests.unit.chat.shapes import Fields, developer, says, text, user

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

WINDOW = 32_000
TRIGGER = 22_400
MESSAGES = 200
SEEN = {"truncate_history": False}


def conversation() -> list[Fields]:
    """Return 200 messages: questions, some with images, and steps, some parallel or with images."""
    messages = [developer("Be brief."), user("Let us begin")]
    number = 0
    while len(messages) < MESSAGES:
        number += 1
        if number % 4 == 0:
            shown = [image(png(64 + number, 64))] if number % 8 == 0 else []
            question = user([text(f"Now {number}: {output(120, number)}"), *shown])
            messages += [says(f"Done with {number}", reasoning_content="so"), question]
            continue
        contents = [
            output(200 + 40 * (number % 5), f"{number}.{part}") for part in range(number % 3 + 1)
        ]
        seen = [text("A screenshot"), image(png(80, 60 + number))] if number % 10 == 3 else None
        messages += step(str(number), *contents, *([seen] if seen else []))
    return messages[:MESSAGES]


async def replay(client: Client, messages: list[Fields]) -> list[str]:
    """Send the conversation as it grew; return the ids of the requests compacted anew."""
    with listening() as log:
        for history in requests_of(messages):
            if has_whole_pairs(history):
                await client.ask(history)
        return await log.compactions(len(client.asked))


@pytest.mark.parametrize("behaviour", [answer, answer_with_usage])
async def test_every_prompt_begins_with_the_one_before_but_for_compactions(
    behaviour: Behaviour,
) -> None:
    """BUGS 21, 22, 44; also while the proxy learns how its upstream counts."""
    given = conversation()

    async with fake(behaviour) as model, client_of(model, WINDOW, vision=SEEN) as client:
        compactions = await replay(client, given)

    added = max(asked.tokens[0] for asked in client.asked)
    assert len(client.asked) > 60
    assert added > 2 * TRIGGER
    assert client.broken() == compactions
    assert 1 <= len(compactions) <= added / (TRIGGER / 3)


async def test_spaces_in_the_clients_json_do_not_matter() -> None:
    async with fake() as model, client_of(model, WINDOW, vision=SEEN) as client:
        client.separators = (", ", ": ")
        compactions = await replay(client, conversation()[:100])

    assert compactions
    assert client.broken() == compactions


async def test_compactions_are_far_apart_and_age_all_that_is_old_at_once() -> None:
    """BUGS 10, 22: results and media age in one break, then a quarter of the trigger must come."""
    async with fake() as model, client_of(model, WINDOW, vision=SEEN) as client:
        compactions = await replay(client, conversation())

    compacted = [asked for asked in client.asked if asked.headers["x-request-id"] in compactions]
    assert all(new.tokens[0] - old.tokens[0] >= TRIGGER / 4 for old, new in pairwise(compacted))
    assert compacted[-1].stages == ["age_tool_output", "age_media"]
    assert b"[Old inline media cleared: image/png]" in compacted[-1].prompt


async def test_a_conversation_below_the_trigger_is_sent_byte_for_byte() -> None:
    async with fake() as model, client_of(model, 500_000, vision=SEEN) as client:
        compactions = await replay(client, conversation())

    assert compactions == []
    assert all(asked.upstream == asked.body for asked in client.asked)


async def test_over_the_trigger_with_nothing_to_age_every_request_passes_as_it_is() -> None:
    """BUGS 7, 8: what cannot be made smaller is not tried again and again with breaks."""
    messages = [user(output(900, "first"))]
    for number in range(20):
        messages += [says(output(600, f"a{number}")), user(output(600, f"u{number}"))]

    async with fake() as model, client_of(model, WINDOW, vision=SEEN) as client:
        compactions = await replay(client, messages)

    assert client.asked[-1].tokens[0] > TRIGGER
    assert compactions == []
    assert all(asked.upstream == asked.body for asked in client.asked)
