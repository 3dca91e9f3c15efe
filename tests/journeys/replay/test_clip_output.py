"""Where only prompt and output together are too long, the request asks for less output."""

import json
from typing import Any

import pytest

from tests.journeys.replay.small_server import (
    Refusal,
    always,
    at_least,
    body_of,
    is_answer,
    label_of,
    over,
    over_with_output,
    stages_of,
    too_much_output,
    visiting,
    vllm,
    with_output,
)
from tests.journeys.summaries.talking import SYSTEM, long_chat, turns
from tests.support.conversations import listening
from tests.support.summary_model import Question
from tests.unit.chat.shapes import user

pytestmark = pytest.mark.anyio

WINDOW = 4_000
SHORT = [SYSTEM, *turns(4), user("And now?")]
"""About 1,900 tokens."""


def asked(body: bytes) -> dict[str, Any]:
    """The output that a request asks for."""
    document = json.loads(body)
    names = ("max_tokens", "max_completion_tokens")
    return {name: document[name] for name in names if name in document}


@pytest.mark.parametrize("stream", [False, True])
async def test_the_request_asks_for_less_output_and_keeps_every_message(stream: bool) -> None:
    async with visiting(over_with_output(WINDOW)) as guest:
        answer = await guest.tell(SHORT, max_tokens=3_500, stream=stream)

    assert is_answer(answer)
    assert guest.last == SHORT
    assert len(guest.calls) == 2
    left = asked(guest.calls[1])["max_tokens"]
    assert WINDOW // 4 < left <= WINDOW - guest.prompts[1]
    assert stages_of(answer) == ["clip_output"]
    assert label_of(answer) == "trimmed"


async def test_the_messages_keep_their_very_bytes() -> None:
    messages = b'[ {"role":"user",  "content":"h\\u00e9"} ]'
    body = b'{"model":"fake","max_tokens":9000,"messages":' + messages + b"}"

    async with visiting(over_with_output(WINDOW)) as guest:
        answer = await guest.send(body)

    assert is_answer(answer)
    assert messages.strip(b"[ ]") in guest.calls[1]


async def test_both_names_of_the_maximum_are_lowered() -> None:
    def judge(question: Question) -> Refusal | None:
        output = question.max_tokens
        return Refusal(too_much_output(WINDOW, output)) if output >= WINDOW else None

    async with visiting(judge) as guest:
        both = {"max_tokens": 9_000, "max_completion_tokens": 8_000}
        answer = await guest.tell(SHORT, **both)

    assert is_answer(answer)
    lowered = asked(guest.calls[1])
    assert lowered["max_tokens"] == lowered["max_completion_tokens"] < WINDOW
    assert guest.last == SHORT


async def test_a_prompt_that_the_server_has_counted_leaves_the_rest_of_the_window() -> None:
    def judge(question: Question) -> Refusal | None:
        if question.tokens + question.max_tokens <= WINDOW:
            return None
        words = (
            f"'max_tokens' or 'max_completion_tokens' is too large: {question.max_tokens}. This "
            f"model's maximum context length is {WINDOW} tokens and your request has "
            f"{question.tokens} input tokens."
        )
        return Refusal(vllm(words))

    async with visiting(judge, factor=1.4) as guest:
        answer = await guest.tell(SHORT, max_tokens=3_000)

    assert is_answer(answer)
    assert len(guest.calls) == 2
    left = WINDOW - guest.prompts[0]
    assert 0.9 * left < asked(guest.calls[1])["max_tokens"] <= left


async def test_the_log_and_the_figures_tell_of_it() -> None:
    with listening() as heard:
        async with visiting(over_with_output(WINDOW)) as guest:
            await guest.tell(SHORT, max_tokens=3_500)

    line = heard.lines("request")[-1]
    assert (line["replays"], line["stages"]) == (1, "clip_output")
    assert guest.replays("sent") == 1


async def test_other_fields_stay_as_they_are() -> None:
    fields = {"temperature": 0.25, "stop": ["a", "b"], "seed": 2**60, "x": {"y": None}}
    async with visiting(over_with_output(WINDOW)) as guest:
        await guest.tell(SHORT, max_tokens=3_500, **fields)

    document = json.loads(guest.calls[1])
    assert {name: document[name] for name in fields} == fields
    assert document["model"] == "fake"


async def test_a_prompt_that_is_too_long_itself_is_compacted_and_then_clipped() -> None:
    async with visiting(over_with_output(WINDOW)) as guest:
        answer = await guest.tell(long_chat(), max_tokens=3_500)

    assert is_answer(answer)
    assert len(guest.calls) <= 3
    assert {"summary", "clip_output"} <= set(stages_of(answer))
    assert asked(guest.calls[-1])["max_tokens"] < 3_500


async def test_with_clipping_off_the_prompt_is_made_smaller_where_that_helps() -> None:
    async with visiting(over_with_output(WINDOW), replay={"clip_output": False}) as guest:
        answer = await guest.tell([SYSTEM, *turns(8), user("And now?")], max_tokens=1_500)

    assert is_answer(answer)
    assert all(asked(body) == {"max_tokens": 1_500} for body in guest.calls)
    assert "clip_output" not in stages_of(answer)
    assert "replay" in stages_of(answer)


async def test_with_clipping_off_no_history_is_given_up_for_output_that_can_never_fit() -> None:
    """BUGS 33: more output than the whole window is refused with any prompt."""

    def judge(question: Question) -> Refusal | None:
        output = int(question.fields.get("max_tokens") or 0)
        return Refusal(too_much_output(WINDOW, output)) if output > WINDOW else None

    body = body_of(SHORT, max_tokens=9_000)
    async with visiting(judge, replay={"clip_output": False}) as guest:
        answer = await guest.send(body)

    assert (answer.status, answer.body) == (400, too_much_output(WINDOW, 9_000))
    assert guest.calls == [body]
    assert guest.server.summaries == []


async def test_a_request_without_a_maximum_gets_none() -> None:
    async with visiting(over(WINDOW)) as guest:
        answer = await guest.tell(long_chat())

    assert is_answer(answer)
    assert asked(guest.calls[-1]) == {}


async def test_a_server_that_is_never_content_gets_no_body_twice() -> None:
    """BUGS 33."""
    refusal = with_output(WINDOW, 3_500, WINDOW)
    async with visiting(always(refusal)) as guest:
        answer = await guest.tell(SHORT, max_tokens=3_500)

    assert (answer.status, answer.body) == (400, refusal)
    assert len(guest.calls) == len(set(guest.calls)) <= 3


async def test_where_less_output_did_not_help_the_prompt_is_made_smaller() -> None:
    """BUGS 33: the server counts more than we do, and says only "at least"."""
    async with visiting(over_with_output(WINDOW), factor=1.5) as guest:
        answer = await guest.tell([SYSTEM, *turns(7), user("And now?")], max_tokens=1_000)

    assert guest.prompts[0] > WINDOW
    assert is_answer(answer)
    assert len(guest.calls) == len(set(guest.calls)) <= 3


async def test_what_was_clipped_stays_so_when_the_next_refusal_names_no_limit() -> None:
    nameless = b'{"error":{"message":"no","code":"context_length_exceeded"}}'

    def judge(question: Question) -> Refusal | None:
        if question.is_summary or len(question.messages) < len(SHORT):
            return None
        output = question.max_tokens
        return Refusal(with_output(WINDOW, output, WINDOW) if output == 3_500 else nameless)

    async with visiting(judge) as guest:
        answer = await guest.tell(SHORT, max_tokens=3_500)

    assert is_answer(answer)
    first, clipped, last = (asked(body)["max_tokens"] for body in guest.calls)
    assert first > clipped == last


async def test_a_maximum_that_is_no_number_is_left_alone() -> None:
    async with visiting(always(at_least(WINDOW))) as guest:
        answer = await guest.tell([user("Hi")], max_tokens="many", max_completion_tokens=True)

    assert (answer.status, answer.body) == (400, at_least(WINDOW))
    assert len(guest.calls) == 1


def counts_output(question: Question) -> Refusal | None:
    """Refuse as OpenAI did: with the output of its own wish, where the client has none."""
    output = int(question.fields.get("max_tokens") or 2_500)
    if question.tokens + output <= WINDOW:
        return None
    sizes = f"({question.tokens} in the messages, {output} in the completion)"
    return Refusal(
        vllm(
            f"This model's maximum context length is {WINDOW} tokens. However, you requested "
            f"{question.tokens + output} tokens {sizes}. Please reduce the length of the messages."
        )
    )


@pytest.mark.parametrize(
    ("clips", "wish"), [(True, {}), (False, {}), (False, {"max_tokens": 2_500})]
)
async def test_output_that_cannot_be_lowered_is_made_room_for(
    clips: bool, wish: dict[str, int]
) -> None:
    async with visiting(counts_output, replay={"clip_output": clips}) as guest:
        answer = await guest.tell(SHORT, **wish)

    assert is_answer(answer)
    assert len(guest.calls) == 2
    assert stages_of(answer)[-1] == "replay"
    assert asked(guest.calls[1]) == wish
    assert guest.last[-1] == SHORT[-1]
