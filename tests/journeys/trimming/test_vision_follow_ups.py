"""Text follow-ups and agents' steps in chats with images: all text stays, images while they fit."""

import json
from typing import Any

import pytest

from tests.journeys.counting.pictures import png
from tests.support.conversations import (
    last_body,
    last_messages,
    photo,
    post,
    sha256,
    trimming,
    without_usage,
)
from tests.support.live import RawAnswer, chat_body
from tests.support.meeting import Meeting, meeting
from tests.unit.chat.shapes import Fields, calls, image, result, says, system, text, user

pytestmark = pytest.mark.anyio

SYSTEM = system("You help to plan a garden.")
WINDOW = 131_072
LABEL = text("Attached image(s) from tool result:")
CLEARED = "[Old inline media cleared: image/png]"
OLD = {"follow_ups": "truncate"}


async def passes(met: Meeting, messages: list[Fields]) -> bool:
    """Send a chat; return whether the upstream got the very bytes."""
    body = chat_body(messages=messages)
    await post(met.client, body)
    return sha256(last_body(met.model)) == sha256(body)


async def sent_on(met: Meeting, messages: list[Fields]) -> list[Fields]:
    await post(met.client, chat_body(messages=messages))
    return last_messages(met.model)


def stages(answer: RawAnswer) -> str:
    return answer.headers.get("x-chat-proxy-stages", "")


def garden() -> list[Fields]:
    """A photo, then twelve turns of planning."""
    history = [SYSTEM, user([text("This is my garden."), photo(1)]), says("A long, sunny strip.")]
    for number in range(12):
        history += [user(f"What about bed {number}?"), says(f"Bed {number}: beans. " * 8)]
    return [*history, user("Put the whole plan into one table.")]


def shot(name: str, *, labelled: bool) -> list[Fields]:
    """A step of an agent that sends the image of a tool's result as a user message."""
    attached = [*([LABEL] if labelled else []), photo(len(name))]
    return [calls(name), result(name, "(see attached image)"), user(attached)]


# The three stories


async def test_after_a_photo_and_twelve_text_turns_everything_is_still_there() -> None:
    async with meeting(without_usage, budget={"context_window": WINDOW}) as met:
        assert await passes(met, garden())


async def test_old_a_photo_costs_all_text_turns_after_it() -> None:
    async with meeting(without_usage, budget={"context_window": WINDOW}, vision=OLD) as met:
        assert await sent_on(met, garden()) == [SYSTEM, garden()[-1]]


@pytest.mark.parametrize("labelled", [True, False])
async def test_an_agent_whose_images_come_as_user_messages_keeps_its_task(labelled: bool) -> None:
    task = user("Fix the layout of the start page.")
    history = [SYSTEM, user("Hi"), says("Hello."), task]
    async with trimming() as met:
        for step in range(29):
            history += shot(f"shot{step}", labelled=labelled)

            assert await passes(met, history)


async def test_old_such_an_agent_loses_its_task() -> None:
    history = [SYSTEM, user("Fix the page."), *shot("a", labelled=True), *shot("b", labelled=True)]
    async with trimming(vision=OLD) as met:
        assert await sent_on(met, history) == [SYSTEM, history[-1]]


async def test_a_second_question_about_a_photo_has_the_photo() -> None:
    history = [SYSTEM, user([text("What is this?"), photo(1)]), says("A rose."), user("How old?")]
    async with trimming() as met:
        assert await passes(met, history)


async def test_words_of_the_user_behind_a_result_begin_a_turn() -> None:
    """Only a label of the attached media is no turn: here the user shows something."""
    earlier = [user("Begin"), says("Yes."), user("Look it up"), calls("a"), result("a")]
    shown = user([text("No, like in this picture!"), photo(1)])
    async with trimming() as met:
        assert await sent_on(met, [SYSTEM, *earlier, shown]) == [SYSTEM, shown]


async def test_a_screenshot_in_a_result_drops_no_turn() -> None:
    earlier = [user("Begin"), says("Yes.")]
    nested: Any = {"type": "tool_result", "tool_use_id": "b", "content": [photo(2)]}
    step = [user("Look"), calls("a"), result("a", [photo(1)])]
    async with trimming() as met:
        assert await passes(met, [SYSTEM, *earlier, *step])
        assert await passes(met, [SYSTEM, *earlier, user([nested])])


# When the window needs it


def album(photos: int, *, side: int = 512) -> list[Fields]:
    """So many photos with their answers; then a question in words."""
    history: list[Fields] = [SYSTEM]
    for number in range(photos):
        history += [
            user([text(f"Photo {number}"), image(png(side, side + number))]),
            says(f"Photo {number} shows tree {number}."),
        ]
    return [*history, user("Which is the best?")]


def pictures(messages: list[Fields]) -> list[int]:
    """The numbers of the messages that still have a picture."""
    return [at for at, message in enumerate(messages) if "image_url" in json.dumps(message)]


async def test_older_images_give_way_oldest_first_and_all_text_stays() -> None:
    """Each image counts 1,600: six are over the trigger of this window, four are not."""
    given = album(6)
    async with trimming(budget={"context_window": 12_000}) as met:
        answer = await post(met.client, chat_body(messages=given))
        sent = last_messages(met.model)

    kept = pictures(sent)
    assert stages(answer) == "age_media"
    assert kept == pictures(given)[-len(kept) :]
    assert 0 < len(kept) < 6
    assert [m for m in sent if m["role"] != "user"] == [m for m in given if m["role"] != "user"]
    assert all(f"Photo {number}" in json.dumps(sent) for number in range(6))
    assert json.dumps(sent).count(CLEARED) == 6 - len(kept)


@pytest.mark.parametrize("keep", [1, 2])
async def test_the_newest_images_stay(keep: int) -> None:
    vision = {"keep_last_images": keep}
    budget = {"context_window": 4_600 + 1_600 * (keep - 1)}
    async with trimming(budget=budget, vision=vision) as met:
        sent = await sent_on(met, album(4))

    assert pictures(sent) == pictures(album(4))[-keep:]


async def test_what_gave_way_stays_away_and_the_prefix_holds() -> None:
    """BUGS 21, 22: the next requests repeat the decision."""
    given = album(6)
    async with trimming(budget={"context_window": 12_000}) as met:
        first = await sent_on(met, given)
        second = await sent_on(met, [*given, says("The last."), user("Why?")])

    assert second[: len(first)] == first


async def test_below_the_trigger_all_images_stay() -> None:
    async with trimming(budget={"context_window": 40_000}) as met:
        assert await passes(met, album(6))
