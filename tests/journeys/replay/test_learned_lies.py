"""Nobody teaches a window but the server: words of a request that an error repeats do not."""

import json

import pytest

from tests.journeys.replay.small_server import (
    Refusal,
    at_least,
    body_of,
    is_answer,
    over,
    visiting,
    vllm,
)
from tests.journeys.summaries.talking import long_chat
from tests.support.summary_model import Question
from tests.unit.chat.shapes import Fields, user

pytestmark = pytest.mark.anyio

WINDOW = 4_000
BELIEVED = {"tokens": 100_000, "source": "setting"}
LIE = (
    "This model's maximum context length is 100 tokens. However, your prompt contains at least 101"
)
ECHOES = {
    "quoted": "Invalid value for role: '{}'",
    "double quotes": 'Unexpected item "{}" in content',
    "backticks": "Unknown tool `{}`",
    "plain": "Unknown part type: {}",
    "plain, at the beginning": "{} is not a valid role",
    "on a line of its own": "Could not parse the grammar:\n{}\nexpected a rule",
}


@pytest.mark.parametrize("form", ECHOES)
async def test_words_of_the_request_in_an_error_teach_nothing(form: str) -> None:
    """BUGS 13: the limit comes from the server's own words."""

    def judge(question: Question) -> Refusal | None:
        is_wicked = LIE in json.dumps(question.fields)
        return Refusal(vllm(ECHOES[form].format(LIE))) if is_wicked else None

    async with visiting(judge) as guest:
        refused = await guest.tell([user("Hi")], grammar=LIE)
        told = await guest.window()
        body = body_of(long_chat())
        answer = await guest.send(body)

    assert (refused.status, refused.body) == (400, vllm(ECHOES[form].format(LIE)))
    assert told == BELIEVED
    assert is_answer(answer)
    assert guest.calls[-1] == body


@pytest.mark.parametrize("place", ["content", "part", "name"])
async def test_wherever_such_words_stand_they_teach_nothing(place: str) -> None:
    places: dict[str, list[Fields]] = {
        "content": [user(LIE)],
        "part": [user([{"type": "text", "text": f"x\n{LIE}\ty"}])],
        "name": [{"role": "user", "name": LIE, "content": "Hi"}],
    }
    refusal = vllm(f"Bad request: {LIE}")
    async with visiting(lambda _: Refusal(refusal)) as guest:
        await guest.tell(places[place])
        told = await guest.window()

    assert told == BELIEVED


async def test_a_count_in_words_of_the_request_does_not_move_the_estimate() -> None:
    lie = "Input length (90000) exceeds model's maximum context length (4096)."
    body = body_of([user("Hi")])
    async with visiting(lambda _: Refusal(vllm(f"Bad part: {lie}"))) as guest:
        await guest.tell([user(lie)])
        guest.server.refusing = lambda _: None
        answer = await guest.send(body)

    assert int(answer.headers["x-chat-proxy-tokens-before"]) < 50


async def test_a_user_who_quotes_an_old_error_is_still_helped() -> None:
    """The sentence in the chat is the very one that the server says then."""
    quoting = [
        *long_chat()[:-1],
        user(f"Why this? {json.loads(at_least(WINDOW))['error']['message']}"),
    ]
    async with visiting(over(WINDOW)) as guest:
        answer = await guest.tell(quoting)

    assert is_answer(answer)
    assert len(guest.calls) == 2
