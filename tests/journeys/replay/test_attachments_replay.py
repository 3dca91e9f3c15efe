"""Media that are too large: older ones go first, the current turn's last, and the model is told."""

import asyncio

import pytest

from chat_proxy.compaction.media_notes import LEFT_OUT_NOTE
from tests.journeys.counting.pictures import png
from tests.journeys.replay.small_server import (
    Refusal,
    body_of,
    counted,
    is_answer,
    label_of,
    over,
    over_bytes,
    stages_of,
    visiting,
)
from tests.journeys.summaries.talking import long_chat
from tests.journeys.trimming.growing import has_whole_pairs
from tests.support.clock import own_time
from tests.support.live import RawAnswer
from tests.support.summary_model import Question
from tests.unit.chat.shapes import Fields, calls, image, result, says, system, text, user

pytestmark = pytest.mark.anyio

ATTACHED = text("[Attached image/png: file]")
CLEARED = "[Old inline media cleared: image/png]"
NOTE = text(LEFT_OUT_NOTE)
WHOLE_HISTORY = {"truncate_history": False}


def photo(number: int, extra_bytes: int = 0) -> Fields:
    """A picture like no other."""
    return image(png(600, 600 + number, extra_bytes))


def pictures_in(messages: list[Fields]) -> list[str]:
    """The addresses of all pictures that are left, in their order."""
    lists = (message["content"] for message in messages if type(message["content"]) is list)
    parts = [part for content in lists for part in content]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def urls(*photos: Fields) -> list[str]:
    """The addresses of these."""
    return [each["image_url"]["url"] for each in photos]


@pytest.mark.parametrize("stream", [False, True])
async def test_one_huge_picture_gives_way_to_its_name_and_a_note(stream: bool) -> None:
    """BUGS 17, 32."""
    async with visiting(over(500, tells_count=True)) as guest:
        question = user([text("What is this?"), photo(0)])
        answer = await guest.tell([system(), question], stream=stream)

    assert is_answer(answer)
    assert guest.last == [system(), user([text("What is this?"), ATTACHED, NOTE])]
    assert len(guest.calls) == 2
    assert stages_of(answer) == ["age_media", "replay"]
    assert label_of(answer) == "trimmed"


async def test_a_picture_with_a_name_is_called_by_it() -> None:
    named = {"type": "file", "file": {"filename": "plan.png", "file_data": png(900, 900)}}
    async with visiting(over(500)) as guest:
        answer = await guest.tell([user([text("Read it."), named])])

    assert is_answer(answer)
    assert guest.last[0]["content"][1] == text("[Attached image/png: plan.png]")


async def test_pictures_of_older_turns_go_before_the_current_one() -> None:
    """BUGS 32."""
    one, two, new = map(photo, range(3))
    chat = [user([text("This?"), one, two]), says("A cat."), user([text("And this?"), new])]
    off = {"enabled": False}
    async with visiting(over(2_500), vision=WHOLE_HISTORY, summary=off) as guest:
        answer = await guest.tell(chat)

    assert is_answer(answer)
    assert pictures_in(guest.last) == urls(new)
    note = text(f"{CLEARED} 600x600, message #0; the assistant said: A cat.")
    assert guest.last[0]["content"][1]["text"].startswith(f"{CLEARED} ")
    assert guest.last[0]["content"][1] == note
    assert guest.last[2] == chat[2]
    assert len(guest.calls) == 2


async def test_of_several_pictures_in_the_current_message_the_oldest_go_first() -> None:
    photos = [photo(number) for number in range(4)]
    async with visiting(over(2_500, tells_count=True)) as guest:
        answer = await guest.tell([user([text("Compare."), *photos])])

    assert is_answer(answer)
    kept = pictures_in(guest.last)
    assert 1 <= len(kept) <= 2
    assert kept == urls(*photos)[-len(kept) :]
    content = guest.last[0]["content"]
    assert content[: 5 - len(kept)] == [text("Compare."), *[ATTACHED] * (4 - len(kept))]
    assert content[-1] == NOTE


async def test_in_a_run_of_tools_the_oldest_pictures_go_first_and_pairs_hold() -> None:
    photos = [photo(number) for number in range(4)]
    run: list[Fields] = [user("Look around.")]
    for number, each in enumerate(photos):
        run += [calls(f"c{number}"), result(f"c{number}", [text("seen"), each])]

    off = {"enabled": False}
    async with visiting(over(2_800, tells_count=True), prune=off, summary=off) as guest:
        answer = await guest.tell(run)

    assert is_answer(answer)
    kept = pictures_in(guest.last)
    assert 1 <= len(kept) <= 2
    assert kept == urls(*photos)[-len(kept) :]
    assert has_whole_pairs(guest.last)
    assert guest.last[-len(kept) * 2 :] == run[-len(kept) * 2 :]
    assert run[0] in guest.last


async def test_pictures_that_count_more_than_we_think_all_go_on_the_second_replay() -> None:
    """BUGS 17."""

    def judge(question: Question) -> Refusal | None:
        return Refusal(counted(4_000, 90_000)) if pictures_in(question.messages) else None

    photos = [photo(number) for number in range(6)]
    async with visiting(judge) as guest:
        answer = await guest.tell([user([text("Compare."), *photos])])

    assert is_answer(answer)
    assert len(guest.calls) <= 3
    assert guest.last == [user([text("Compare."), *[ATTACHED] * 6, NOTE])]


async def test_the_clients_own_words_stay_with_the_note() -> None:
    words = [text("First."), photo(0), text("Last.", cache_control={"type": "ephemeral"})]
    async with visiting(over(500)) as guest:
        await guest.tell([user(words)])

    assert guest.last[0]["content"] == [words[0], ATTACHED, words[2], NOTE]


async def test_the_next_request_without_pictures_knows_nothing_of_the_note() -> None:
    chat = [user([text("What is this?"), photo(0)])]
    async with visiting(over(500)) as guest:
        await guest.tell(chat)
        later = body_of([user("Something else.")])
        answer = await guest.send(later)

    assert is_answer(answer)
    assert guest.calls[-1] == later


# Too large in bytes, whatever the tokens


@pytest.mark.parametrize("stream", [False, True])
async def test_a_body_too_large_gives_up_old_media_and_not_a_word(stream: bool) -> None:
    """BUGS 17."""
    chat = long_chat()
    chat[1] = user([text("See?"), photo(0, 300_000)])
    chat[-1] = user([text("And now?"), photo(1)])
    async with visiting(over_bytes(200_000), vision=WHOLE_HISTORY) as guest:
        answer = await guest.tell(chat, stream=stream)

    assert is_answer(answer)
    assert len(guest.calls) == 2
    expected = [*chat]
    [words, note] = guest.last[1]["content"]
    assert words == text("See?")
    assert note["text"].startswith(f"{CLEARED} 600x600, message #1; the assistant said: About ")
    expected[1] = guest.last[1]
    assert guest.last == expected
    assert guest.server.summaries == []


async def test_a_large_picture_in_the_current_message_goes_when_no_other_is_left() -> None:
    """BUGS 17, 32."""
    async with visiting(over_bytes(100_000)) as guest:
        answer = await guest.tell([user([text("This?"), photo(0, 200_000)])])

    assert is_answer(answer)
    assert guest.last == [user([text("This?"), ATTACHED, NOTE])]


async def test_small_old_pictures_do_not_stand_in_the_way_of_a_large_new_one() -> None:
    """BUGS 33: what frees no byte is no step."""
    tiny = image("https://a.b/c")
    chat = [user([text("This?"), tiny]), says("A cat."), user([text("Now?"), photo(0, 200_000)])]
    async with visiting(over_bytes(100_000), vision=WHOLE_HISTORY) as guest:
        answer = await guest.tell(chat)

    assert is_answer(answer)
    assert pictures_in(guest.last)[1:] == []
    assert guest.last[-1] == user([text("Now?"), ATTACHED, NOTE])


async def test_every_body_is_smaller_than_the_one_before() -> None:
    """BUGS 33."""
    photos = [photo(number, 50_000) for number in range(4)]
    chat = [user([text("This?"), photo(9, 50_000)]), says("Yes."), user([text("Now?"), *photos])]
    async with visiting(over_bytes(1_000), vision=WHOLE_HISTORY) as guest:
        answer = await guest.tell(chat)

    sizes = [len(body) for body in guest.calls]
    assert sizes == sorted(set(sizes), reverse=True)
    assert len(sizes) <= 3
    assert pictures_in(guest.last) == []
    assert is_answer(answer)


async def test_a_body_too_large_without_media_gets_the_upstreams_own_page() -> None:
    body = body_of([user("Hi. " * 2_000)])
    async with visiting(over_bytes(1_000)) as guest:
        answer = await guest.send(body)

    assert answer.status == 413
    assert answer.body == guest.server.refusals[0].body
    assert answer.headers["content-type"] == "text/html"
    assert guest.calls == [body]
    assert guest.replays("exhausted") == 1


async def test_bytes_teach_nothing_about_the_window() -> None:
    async with visiting(over_bytes(1_000)) as guest:
        await guest.tell([user([text("This?"), photo(0, 5_000)])])
        told = await guest.window()

    assert told == {"tokens": 100_000, "source": "setting"}


async def test_a_turn_of_very_many_pictures_holds_up_nobody() -> None:
    photos = [photo(number) for number in range(800)]
    async with visiting(over(12_000)) as guest:
        await guest.tell([user("Hi")])
        asking = asyncio.create_task(guest.tell([user([text("Compare."), *photos])]))
        stall = await longest_stall(asking)
        answer = asking.result()

    assert is_answer(answer)
    assert len(guest.calls) <= 4
    assert stall < 2


async def longest_stall(task: asyncio.Task[RawAnswer]) -> float:
    """Return for how long the event loop stood still until the task was done."""
    longest = 0.0
    while not task.done():
        before = own_time()
        await asyncio.sleep(0.01)
        longest = max(longest, own_time() - before)
    return longest
