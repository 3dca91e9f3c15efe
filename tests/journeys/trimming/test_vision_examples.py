"""docs/vision.md by example: what the client sends and what the upstream gets."""

import json
from typing import Any

import pytest

from tests.support.conversations import (
    last_body,
    last_messages,
    listening,
    photo,
    post,
    sha256,
    trimming,
)
from tests.support.fake_model import polite
from tests.support.live import RawAnswer, chat_body
from tests.support.meeting import Meeting
from tests.unit.chat.shapes import (
    Fields,
    calls,
    developer,
    image,
    result,
    says,
    system,
    text,
    user,
)

pytestmark = pytest.mark.anyio

SYSTEM = system("You describe photos.")
ANSWER = says("A red bicycle.")
OLD = {"follow_ups": "truncate"}
"""An image anywhere in the request drops older turns."""


def asks(words: str, *photos: Fields) -> Fields:
    return user([*photos, text(words)])


def sizes(answer: RawAnswer) -> tuple[int, int]:
    before, after = "x-chat-proxy-tokens-before", "x-chat-proxy-tokens-after"
    return int(answer.headers[before]), int(answer.headers[after])


async def sent_on(met: Meeting, *messages: Fields) -> list[Fields]:
    """Send a chat; return what the upstream got of it."""
    await post(met.client, chat_body(messages=list(messages)))
    return last_messages(met.model)


async def passes(met: Meeting, body: bytes) -> bool:
    """Send these bytes; tell whether the upstream got the same and the answer says so."""
    answer = await post(met.client, body)
    assert "x-chat-proxy-stages" not in answer.headers
    assert answer.headers["x-chat-proxy-compaction"] == "none"
    return sha256(last_body(met.model)) == sha256(body)


async def test_many_images_one_after_the_other_are_each_sent_alone() -> None:
    first, second, third = (
        asks("Describe it", photo(1)),
        asks("And this?", photo(2)),
        asks("And this?", photo(3)),
    )
    async with trimming() as met:
        one = await sent_on(met, SYSTEM, first)
        two = await sent_on(met, SYSTEM, first, ANSWER, second)
        three = await sent_on(met, SYSTEM, first, ANSWER, second, ANSWER, third)

    assert one == [SYSTEM, first]
    assert two == [SYSTEM, second]
    assert three == [SYSTEM, third]


async def test_the_hundredth_image_costs_as_much_as_the_first() -> None:
    history = [message for at in range(99) for message in (asks("Next", photo(at)), ANSWER)]
    async with trimming() as met:
        first = await post(met.client, chat_body(messages=[SYSTEM, asks("Next", photo(0))]))
        messages = [SYSTEM, *history, asks("Next", photo(99))]
        hundredth = await post(met.client, chat_body(messages=messages))

    assert sizes(hundredth)[1] == sizes(first)[1]


async def test_one_image_is_discussed_for_as_long_as_there_is_room() -> None:
    shown = asks("What is this?", photo(1))
    follow_ups = [user("Which make?"), user("How old?"), user("Still built?")]
    history = [SYSTEM, shown]
    async with trimming() as met:
        for question in follow_ups:
            history += [ANSWER, question]

            assert await passes(met, chat_body(messages=history))


@pytest.mark.parametrize("keep", [0, 2])
async def test_old_one_image_is_discussed_for_as_many_turns_as_are_kept(keep: int) -> None:
    shown = asks("What is this?", photo(1))
    make, age, built = user("Which make?"), user("How old?"), user("Still built?")
    async with trimming(vision={"keep_last_n_turns": keep, **OLD}) as met:
        one = await sent_on(met, SYSTEM, shown)
        two = await sent_on(met, SYSTEM, shown, ANSWER, make)
        three = await sent_on(met, SYSTEM, shown, ANSWER, make, ANSWER, age)
        four = await sent_on(met, SYSTEM, shown, ANSWER, make, ANSWER, age, ANSWER, built)

    assert one == [SYSTEM, shown]
    if keep == 0:
        assert (two, three, four) == ([SYSTEM, make], [SYSTEM, age], [SYSTEM, built])
    else:
        assert two == [SYSTEM, shown, ANSWER, make]
        assert three == [SYSTEM, shown, ANSWER, make, ANSWER, age]
        assert four == [SYSTEM, make, ANSWER, age, ANSWER, built]


@pytest.mark.parametrize("keep", [0, 1])
async def test_two_images_are_compared_in_one_message_or_with_one_turn_kept(keep: int) -> None:
    both = asks("Which is sharper?", photo(1), photo(2))
    first, second = asks("Look at this cat", photo(1)), asks("Is it the same one?", photo(2))
    async with trimming(vision={"keep_last_n_turns": keep}) as met:
        together = await sent_on(met, SYSTEM, both)
        apart = await sent_on(met, SYSTEM, first, ANSWER, second)

    assert together == [SYSTEM, both]
    assert apart == ([SYSTEM, second] if keep == 0 else [SYSTEM, first, ANSWER, second])


PLAIN = b'{"model":"fake","messages":[{"role":"user","content":"Hi"}]}'
ODD_BODIES = [
    PLAIN,
    b"\xef\xbb\xbf" + PLAIN,
    b" \n" + PLAIN.replace(b":", b" :\t").replace(b",", b"\r\n , ") + b" ",
    PLAIN.replace(b"Hi", b"\\u0048i \\/ half \\ud83d"),
    PLAIN.replace(b"]}", b'],"seed":' + b"9" * 30 + b',"x":1.0e0}'),
    PLAIN.replace(b"}]", b'} ,{"content":"ok","role":"assistant"},\n{"role":"user"}  ]'),
    b'{"model":"fake","messages":[ ]}',
]


async def test_text_only_requests_pass_byte_for_byte() -> None:
    async with trimming() as met:
        for body in ODD_BODIES:
            assert await passes(met, body)


async def test_a_long_chat_without_images_passes_byte_for_byte() -> None:
    turns = [message for _ in range(60) for message in (user("Go on."), ANSWER)]
    body = json.dumps({"messages": [SYSTEM, *turns, user()], "model": "fake"}, indent=3).encode()
    async with trimming() as met:
        assert await passes(met, body)


async def test_an_image_in_the_system_prompt_alone_or_in_a_single_message_passes() -> None:
    """BUGS 32: what was just asked about keeps its image."""
    async with trimming() as met:
        assert await passes(met, chat_body(messages=[system([photo(1)]), developer()]))
        assert await passes(met, chat_body(messages=[asks("This?", photo(1))]))
        assert await passes(met, chat_body(messages=[says([photo(1)])]))


async def test_the_log_says_what_went() -> None:
    turns = [message for at in range(3) for message in (asks("Next", photo(at)), ANSWER)]
    body = chat_body(messages=[SYSTEM, *turns, asks("Last", photo(9))])
    sentence = (
        "[forwarder] Truncated vision history: 8 → 2 messages "
        "(keep_system=True, keep_last_n_turns=0)"
    )
    with listening() as heard:
        async with trimming() as met:
            answer = await post(met.client, body)

    [line] = heard.lines(sentence)
    assert line["request_id"] == answer.headers["x-request-id"]
    assert f'"{sentence}"' in heard.text


async def test_the_answer_says_what_was_done() -> None:
    messages = [SYSTEM, asks("One", photo(1)), ANSWER, asks("Two", photo(2))]
    async with trimming() as met:
        answer = await post(met.client, chat_body(messages=messages))
        streamed = await post(met.client, chat_body(messages=messages, stream=True))

    for told in (answer, streamed):
        assert told.headers["x-chat-proxy-compaction"] == "trimmed"
        assert told.headers["x-chat-proxy-stages"] == "limit_vision_history"
        assert sizes(told)[0] > sizes(told)[1] > 0


async def test_the_request_line_says_how_many_messages_went() -> None:
    messages = [SYSTEM, asks("One", photo(1)), ANSWER, asks("Two", photo(2))]
    with listening() as heard:
        async with trimming(polite) as met:
            answer = await post(met.client, chat_body(messages=messages))

    [line] = heard.lines("request")
    assert (line["messages_before"], line["messages_after"]) == (4, 2)
    assert (line["tokens_before"], line["tokens_after"]) == sizes(answer)
    assert (line["stages"], line["new_compaction"]) == ("limit_vision_history", False)


async def test_instructions_stay_wherever_they_stand() -> None:
    """BUGS 23: the system prompt is never dropped."""
    late = system("Output of ls: a.txt")
    shown, now = asks("This?", photo(1)), asks("And?", photo(2))
    async with trimming() as met:
        kept = await sent_on(met, SYSTEM, developer(), shown, ANSWER, late, now)

    assert kept == [SYSTEM, developer(), late, now]


async def test_instructions_go_only_if_the_setting_says_so() -> None:
    shown, now = asks("This?", photo(1)), asks("And?", photo(2))
    async with trimming(vision={"keep_system": False}) as met:
        kept = await sent_on(met, SYSTEM, shown, ANSWER, now)

    assert kept == [now]


async def test_nothing_goes_where_the_stage_is_off() -> None:
    body = chat_body(messages=[SYSTEM, asks("One", photo(1)), ANSWER, user("And?")])
    async with trimming(vision={"truncate_history": False}) as met:
        assert await passes(met, body)


async def test_tool_groups_inside_turns_stay_whole() -> None:
    """BUGS 38: the current question and its steps are what they were."""
    old = [asks("Look", photo(1)), calls("a"), result("a", [photo(2)]), ANSWER]
    kept = [user("Twice"), calls("b", "c"), result("c"), result("b"), ANSWER]
    now = [
        asks("Again", photo(4)),
        calls("d", "e"),
        result("e", [text("here"), photo(3)]),
        result("d"),
    ]
    async with trimming(vision={"keep_last_n_turns": 1}) as met:
        received = await sent_on(met, SYSTEM, *old, *kept, *now)

    assert received == [SYSTEM, *kept, *now]


async def test_a_result_that_comes_after_the_next_question_stays_with_its_call() -> None:
    """BUGS 38: no result of the current turn is left without its call."""
    messages = [asks("Look", photo(1)), calls("a", "b"), result("a"), user("Well?"), result("b")]
    async with trimming() as met:
        received = await sent_on(met, SYSTEM, *messages)

    called = {call["id"] for message in received for call in message.get("tool_calls", ())}
    answered = {message["tool_call_id"] for message in received if message["role"] == "tool"}
    assert called == answered
    assert user("Well?") in received


async def test_kept_messages_and_everything_around_them_keep_their_bytes() -> None:
    """BUGS 42: fields of a message that nobody here knows are not lost."""
    first = b'{"role":"system" ,"content":"S\\u00e9", "id":7}'
    last = (
        b'{ "name":"Ann","metadata" : {"a":[1.50,1e3]},"role":"user","content":[ {"type":'
        b'"image_url", "image_url":{"url":"https:\\/\\/x.org\\/a.png"}} ] }'
    )
    old = b'{"role":"user","content":"old"}, {"role":"assistant","content":"x"}'
    head, tail = b'\n{"temperature": 0.10, "messages" :\t[ ', b' ] , "model":"fake","seed":7.0}'
    async with trimming() as met:
        await post(met.client, head + first + b" , " + old + b"\n,\n" + last + tail)

        received = last_body(met.model)
    assert received == head + first + b"," + last + tail


KINDS_OF_IMAGES: list[Any] = [
    image("https://example.org/a.png"),
    {"type": "input_image", "image_url": "https://example.org/a.png"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}},
    {"type": "video", "video": ["data:image/png;base64,AAAA"]},
    {"type": "image_embeds", "image_embeds": "AAAA"},
    {"image_embeds": {"image_embeds": "AAAA", "image_grid_thw": "AAAA"}},
]


async def test_an_image_of_any_form_that_the_user_brings_drops_older_turns() -> None:
    earlier = [user("Before"), says("Well.")]
    async with trimming() as met:
        for part in KINDS_OF_IMAGES:
            assert await sent_on(met, SYSTEM, *earlier, user([part])) == [SYSTEM, user([part])]


async def test_old_an_image_of_any_form_counts_wherever_it_stands() -> None:
    now = user("And?")
    async with trimming(vision=OLD) as met:
        for part in [*KINDS_OF_IMAGES, {"type": "tool_result", "content": [photo(1)]}]:
            by_user = await sent_on(met, SYSTEM, user([part]), ANSWER, now)
            by_tool = await sent_on(met, user(), calls("a"), result("a", [part]), ANSWER, now)

            assert by_user == [SYSTEM, now]
            assert by_tool == [now]


async def test_sound_and_files_alone_are_no_images() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    paper = {"type": "file", "file": {"filename": "a.pdf", "file_data": "AAAA"}}
    async with trimming() as met:
        assert await passes(met, chat_body(messages=[user([sound, paper]), ANSWER, user("And?")]))
