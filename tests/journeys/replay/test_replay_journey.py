"""The upstream says "too long" and the user does not see it: the request goes again, smaller."""

import json

import pytest

from tests.journeys.replay.small_server import (
    body_of,
    in_words,
    is_answer,
    label_of,
    over,
    stages_of,
    visiting,
)
from tests.journeys.summaries.talking import SYSTEM, long_chat, prose, turns
from tests.journeys.trimming.growing import has_whole_pairs
from tests.support.conversations import listening
from tests.unit.chat.shapes import Fields, calls, result, says, user

pytestmark = pytest.mark.anyio

WINDOW = 4_000


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_is_too_long_is_answered_on_the_replay(stream: bool) -> None:
    """BUGS 13."""
    async with visiting(over(WINDOW)) as guest:
        answer = await guest.tell(long_chat(), stream=stream)

    assert is_answer(answer)
    first, second = guest.prompts
    assert second < WINDOW <= first
    assert label_of(answer) == "built"
    assert stages_of(answer) == ["summary", "replay"]
    assert guest.replays("sent") == 1
    assert guest.replays("exhausted") == 0


async def test_an_error_as_the_first_event_of_a_stream_is_replayed_too() -> None:
    async with visiting(over(WINDOW, in_band=True)) as guest:
        answer = await guest.tell(long_chat(), stream=True)

    assert is_answer(answer)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert len(guest.calls) == 2


async def test_instructions_and_the_current_request_keep_their_bytes() -> None:
    async with visiting(over(WINDOW)) as guest:
        await guest.tell([*long_chat()[:-1], user("And what about é, now?")])

    assert guest.last[0] == SYSTEM
    assert guest.last[-1] == user("And what about é, now?")


async def test_calls_and_their_results_stay_together() -> None:
    run: list[Fields] = [SYSTEM, user("Read all files.")]
    for number in range(20):
        names = (f"a{number}", f"b{number}")
        run += [calls(*names), *(result(name, prose(150, name)) for name in names)]

    async with visiting(over(WINDOW)) as guest:
        answer = await guest.tell(run)

    assert is_answer(answer)
    assert "replay" in stages_of(answer)
    assert has_whole_pairs(guest.last)
    assert user("Read all files.") in guest.last


async def test_fields_beside_the_messages_stay_as_they_are() -> None:
    fields = {"temperature": 0.5, "metadata": {"a": [1, None]}, "seed": 2**60}
    async with visiting(over(WINDOW)) as guest:
        await guest.tell(long_chat(), **fields)

    document = json.loads(guest.calls[-1])
    assert {name: document[name] for name in fields} == fields


async def test_the_log_and_the_headers_tell_of_the_replay_and_no_word_of_the_chat() -> None:
    with listening() as heard:
        async with visiting(over(WINDOW)) as guest:
            answer = await guest.tell(long_chat())

    line = heard.lines("request")[-1]
    assert (line["status"], line["replays"]) == (200, 1)
    assert line["stages"] == "summary,replay"
    before = int(answer.headers["x-chat-proxy-tokens-before"])
    assert int(answer.headers["x-chat-proxy-tokens-after"]) < WINDOW < before
    assert "the loader reads" not in heard.text
    assert "maximum context length" not in heard.text


async def test_the_usage_in_the_answer_is_the_upstreams_own() -> None:
    async with visiting(over(WINDOW)) as guest:
        answer = await guest.tell(long_chat())

    assert json.loads(answer.body)["usage"]["prompt_tokens"] == guest.prompts[-1]


async def test_a_refusal_behind_our_own_compaction_is_replayed() -> None:
    """FAULTS B18, BUGS 12."""
    async with visiting(over(2_500), window=8_000) as guest:
        answer = await guest.tell(long_chat())

    assert is_answer(answer)
    assert 2 <= len(guest.calls) <= 3
    assert guest.prompts == sorted(set(guest.prompts), reverse=True)
    assert guest.prompts[0] < 8_000
    assert guest.replays("sent") == len(guest.calls) - 1


async def test_where_nobody_knows_the_window_the_refusal_tells_it() -> None:
    """BUGS 15."""
    async with visiting(over(WINDOW), window=None) as guest:
        answer = await guest.tell(long_chat())

    assert is_answer(answer)
    assert len(guest.calls) == 2


async def test_the_next_request_repeats_what_the_replay_decided() -> None:
    chat = long_chat()
    async with visiting(over(WINDOW)) as guest:
        await guest.tell(chat)
        replayed = guest.last
        answer = await guest.tell([*chat, says("Well."), user("Go on.")])

    assert label_of(answer) == "reused"
    assert guest.last[: len(replayed)] == replayed
    assert len(guest.calls) == 3


async def test_without_summaries_old_tool_output_still_makes_room() -> None:
    run: list[Fields] = [SYSTEM]
    for number in range(8):
        name = f"c{number}"
        run += [user("Next?"), calls(name), result(name, prose(800, name)), says("Done.")]
    off = {"enabled": False}

    async with visiting(over(WINDOW), summary=off) as guest:
        answer = await guest.tell([*run, user("And now?")])

    assert is_answer(answer)
    assert label_of(answer) == "trimmed"
    assert stages_of(answer) == ["age_tool_output", "replay"]


FORMS = {
    "openai": (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 4000 tokens. However, your "
                "messages resulted in 6100 tokens. Please reduce the length of the messages.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
    ),
    "llama.cpp": (
        400,
        {
            "error": {
                "code": 400,
                "message": "request (6100 tokens) exceeds the available context size (4000 tokens)",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 6100,
                "n_ctx": 4000,
            }
        },
    ),
    "sglang, flat": (
        400,
        {
            "object": "error",
            "message": "The input (6100 tokens) is longer than the model's context length "
            "(4000 tokens).",
            "type": "BadRequest",
            "param": None,
            "code": 400,
        },
    ),
    "litellm": (
        400,
        {
            "error": {
                "message": "litellm.ContextWindowExceededError: litellm.BadRequestError: "
                "OpenAIException - This model's maximum context length is 4000 tokens. However, "
                "your messages resulted in 6100 tokens.",
                "type": None,
                "code": "400",
            }
        },
    ),
    "no number at all": (
        400,
        {"error": {"message": "Too much.", "code": "context_length_exceeded"}},
    ),
    "500": (500, {"error": {"message": "Context size has been exceeded.", "code": 500}}),
    "422": (422, {"detail": "This model's maximum context length is 4000 tokens."}),
}


@pytest.mark.parametrize("form", FORMS)
async def test_every_servers_words_lead_to_an_answer(form: str) -> None:
    """BUGS 13."""
    async with visiting(in_words(WINDOW, *FORMS[form])) as guest:
        answer = await guest.tell(long_chat())

    assert is_answer(answer)
    assert 2 <= len(guest.calls) <= 3
    assert guest.prompts == sorted(set(guest.prompts), reverse=True)


async def test_turns_that_fit_are_never_touched() -> None:
    body = body_of([SYSTEM, *turns(3), user("So?")])
    async with visiting(over(WINDOW)) as guest:
        answer = await guest.send(body)

    assert is_answer(answer)
    assert guest.calls == [body]
    assert label_of(answer) == "none"
