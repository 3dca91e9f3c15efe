"""How the request's own model is asked for a summary: behind the prompt that its cache has."""

from typing import Any

import pytest

from tests.journeys.summaries.talking import SYSTEM, label, long_chat, talking, turns
from tests.support.fake_model import Line, answer_json
from tests.support.message_slices import message_slices
from tests.support.summary_model import Question, SummaryModel, Telling, good
from tests.unit.chat.shapes import image, text, user

pytestmark = pytest.mark.anyio

WINDOW = 30_000
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]


def prompt_of(body: bytes) -> bytes:
    """Return the bytes of a request's messages, from the first to the last."""
    places = message_slices(body)
    return body[places[0].start : places[-1].stop]


def shared_bytes(one: bytes, other: bytes) -> int:
    """Return how many bytes two prompts have in common, from their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


async def ridden(**fields: Any) -> tuple[SummaryModel, Question]:
    """Let a conversation grow until it needs a summary; return the model and the question."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain, window=WINDOW) as talk:
        talk.fields.update(fields)
        for count in range(32, 52):
            if not brain.summaries:
                await talk.ask(long_chat(count))
    assert len(brain.summaries) == 1
    return brain, brain.summaries[0]


async def test_a_ride_goes_on_where_the_last_request_ended() -> None:
    """At least 95 % of the question's bytes are a prefix that the model's cache has."""
    brain, question = await ridden()

    asked, sent = prompt_of(question.received.body), prompt_of(brain.chats[-2].received.body)
    assert shared_bytes(asked, sent) >= 0.95 * len(asked)
    assert question.messages[-1]["role"] == "user"
    assert question.fields["model"] == "fake"


async def test_a_ride_carries_the_tools() -> None:
    """They are part of the cached prompt; what else is must be in test_rides.py."""
    _, question = await ridden(tools=TOOLS, tool_choice="auto")

    assert question.fields["tools"] == TOOLS
    assert question.fields["tool_choice"] == "auto"


async def test_a_ride_without_tools_says_nothing_about_them() -> None:
    _, question = await ridden()

    assert not {"tools", "tool_choice"} & set(question.fields)


async def test_a_question_is_streamed_short_and_calm() -> None:
    """BUGS 11, 35: no gateway waits for a silent answer, and the answer has its room."""
    _, question = await ridden(temperature=1.5, max_tokens=8_000, n=3, stop=["x"], logprobs=True)

    fields = question.fields
    assert fields["stream"] is True
    assert fields["stream_options"] == {"include_usage": True}
    assert fields["temperature"] == 0.2
    assert question.tokens + question.max_tokens < WINDOW
    assert 700 <= question.max_tokens <= 4_096
    assert not {"n", "stop", "logprobs"} & set(fields)


async def test_a_question_says_it_in_the_clients_own_word_for_the_maximum() -> None:
    _, question = await ridden(max_completion_tokens=8_000)

    assert 700 <= question.fields["max_completion_tokens"] <= 4_096
    assert "max_tokens" not in question.fields


async def test_the_settings_may_add_fields_of_their_own() -> None:
    brain = SummaryModel(window=8_000)
    summary = {"extra_body": {"top_k": 5}, "temperature": None, "max_tokens": 600}
    async with talking(brain, summary=summary) as talk:
        await talk.ask(long_chat())

    (question,) = brain.summaries
    assert question.fields["top_k"] == 5
    assert question.max_tokens == 600
    assert "temperature" not in question.fields


COMPLAINTS = {
    "chat_template_kwargs": "Unrecognized request argument supplied: chat_template_kwargs",
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. "
    "Use 'max_completion_tokens' instead.",
    "temperature": "Unsupported value: 'temperature' does not support 0.2 with this model.",
    "stream_options": "stream_options: Extra inputs are not permitted",
}


def averse_to(*names: str) -> Telling:
    """Return a telling that refuses such fields, one at a time, as OpenAI's servers do."""

    async def tell(question: Question, line: Line) -> None:
        for name in names:
            if name in question.fields:
                await answer_json(line, {"error": {"message": COMPLAINTS[name]}}, 400)
                return
        await good(question, line)

    return tell


@pytest.mark.parametrize("refused", [*([name] for name in COMPLAINTS), list(COMPLAINTS)])
async def test_a_model_that_refuses_a_field_is_asked_again_without_it(refused: list[str]) -> None:
    brain = SummaryModel(averse_to(*refused))
    async with talking(brain) as talk:
        first = await talk.ask(long_chat())
        asked = len(brain.summaries)
        second = await talk.ask([SYSTEM, *turns(14, first=50), user("And now?")])

    assert [label(first), label(second)] == ["built", "built"]
    assert asked == len(refused) + 1
    assert len(brain.summaries) == asked + 1
    assert not set(refused) & set(brain.summaries[-1].fields)
    assert brain.summaries[-1].max_tokens >= 700
    assert len(brain.summaries[-1].messages) > 2


async def test_a_field_of_the_clients_own_stays_in_the_prompt() -> None:
    """Without it the prompt would be another one; the other shape does not have it."""
    brain = SummaryModel(averse_to("chat_template_kwargs"))
    async with talking(brain) as talk:
        talk.fields["chat_template_kwargs"] = {"style": "short"}
        asked = await talk.ask(long_chat())

    own = [question.fields.get("chat_template_kwargs") for question in brain.summaries]
    assert label(asked) == "built"
    assert own == [{"style": "short", "enable_thinking": False}, {"style": "short"}, None]


async def test_a_ride_keeps_images_as_they_were_sent() -> None:
    """The cache makes them free, and another prompt would not be in it."""
    brain = SummaryModel(window=WINDOW)
    given = [SYSTEM, user([text("Look at this"), image()]), *long_chat(44)[2:]]
    async with talking(brain, window=WINDOW, vision={"truncate_history": False}) as talk:
        await talk.ask(given)

    assert brain.summaries[0].messages[1] == given[1]
