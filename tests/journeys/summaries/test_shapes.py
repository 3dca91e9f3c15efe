"""How a model is asked for a summary: behind its own cache, or from the outside."""

import json
from typing import Any

import pytest

from tests.journeys.summaries.talking import SYSTEM, label, long_chat, prose, talking, turns
from tests.journeys.trimming.growing import Asked, step
from tests.support.fake_model import FakeModel, Line, answer_json, fake_model
from tests.support.message_slices import message_slices
from tests.support.summary_model import Question, SummaryModel, Telling, good
from tests.unit.chat.shapes import PIXEL, Fields, image, says, text, user

pytestmark = pytest.mark.anyio

WINDOW = 30_000
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
PDF = "data:application/pdf;base64,JVBERi0xLjcKJeLjz9MKMSAwIG9iago8PC9UeXBlL0NhdGFsb2c+PgplbmRvYmo="
CLIENT = (
    "authorization: Bearer client-key-1",
    "cookie: session=client-cookie",
    "x-request-id: client-request",
    "x-client-secret: client-header",
    "user-agent: client-agent",
    "openai-organization: client-org",
)


def prompt_of(body: bytes) -> bytes:
    """Return the bytes of a request's messages, from the first to the last."""
    places = message_slices(body)
    return body[places[0].start : places[-1].stop]


def shared_bytes(one: bytes, other: bytes) -> int:
    """Return how many bytes two prompts have in common, from their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


async def ridden(**fields: Any) -> tuple[SummaryModel, Question]:
    """Let a conversation grow over the trigger; return the model and the question it got."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain, window=WINDOW) as talk:
        talk.fields.update(fields)
        await talk.ask(long_chat(35))
        await talk.ask([*long_chat(35), *turns(6, first=50)[1:], user("And then?")])
    assert len(brain.summaries) == 1
    return brain, brain.summaries[0]


async def test_a_ride_goes_on_where_the_last_request_ended() -> None:
    """At least 95 % of the question's bytes are a prefix that the model's cache has."""
    brain, question = await ridden()

    asked, sent = prompt_of(question.received.body), prompt_of(brain.chats[0].received.body)
    assert shared_bytes(asked, sent) >= 0.95 * len(asked)
    assert question.messages[-1]["role"] == "user"
    assert question.fields["model"] == "fake"


async def test_a_ride_carries_the_tools_and_forbids_their_use() -> None:
    """The tools are part of the cached prompt, and vLLM takes `none` only beside tools."""
    _, question = await ridden(tools=TOOLS, tool_choice="auto")

    assert question.fields["tools"] == TOOLS
    assert question.fields["tool_choice"] == "none"


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


def told() -> list[Fields]:
    """Return a conversation with media in many places."""
    document = {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}
    return [
        SYSTEM,
        user([text("Look at this"), image(), document]),
        *step("shot", [text("a screenshot"), image()], prose(3_000, "the log")),
        says("I saw it."),
        user(f"Inline: {PIXEL}"),
        says("I saw that too."),
        *turns(12),
        user("And now?"),
    ]


async def transcribed(messages: list[Fields]) -> tuple[FakeModel, Question]:
    """Let another server write the summary; return it and its question."""
    main = SummaryModel(window=8_000)
    other = SummaryModel(window=32_000, names=("small",))
    async with fake_model(other) as second:
        summary = {"model": "small", "base_url": second.url, "api_key": "summary-key"}
        sections: dict[str, Any] = {"summary": summary, "vision": {"truncate_history": False}}
        async with talking(main, *CLIENT, **sections) as talk:
            talk.fields |= {"tools": TOOLS, "user": "client-user", "metadata": {"a": "client-meta"}}
            await talk.ask(messages)
    assert main.summaries == []
    return second, other.summaries[0]


async def test_another_server_gets_no_media_at_all() -> None:
    """BUGS 34, FAULTS C17: images and documents are named, and their bytes stay here."""
    _, question = await transcribed(told())

    written = "\n".join(question.texts)
    for medium in (PIXEL, PDF):
        payload = medium.partition("base64,")[2]
        assert payload[:24].encode() not in question.received.body
    assert "base64," not in written
    assert "[image: image/png]" in written
    assert "[document: application/pdf]" in written


async def test_another_server_gets_nothing_that_names_the_client() -> None:
    """FAULTS C17: no header, no key, no field of the client's request crosses over."""
    second, question = await transcribed(told())

    for received in second.requests:
        seen = repr((received.headers, received.body))
        assert "client-" not in seen
    names = {name for name, _ in question.received.headers}
    assert names <= {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
        "x-request-id",
    }
    assert question.received.header("authorization") == "Bearer summary-key"
    assert not {"tools", "tool_choice", "user", "metadata"} & set(question.fields)


async def test_a_transcript_is_data_between_frames_and_the_instruction_comes_last() -> None:
    """BUGS 28: the model reads a conversation and takes no part in it."""
    _, question = await transcribed(told())

    first, last = question.messages
    nonce = first["content"].partition("<<<role ")[2].partition(">>>")[0]
    assert (first["role"], last["role"]) == ("system", "user")
    assert len(nonce) == 16
    assert last["content"].startswith(f"<<<user {nonce}>>>\n")
    assert f"<<<tool {nonce}>>>" in last["content"]
    assert "Write its summary now" in last["content"].rpartition(f"<<<end {nonce}>>>")[2]


async def test_a_transcript_cuts_tool_results_to_two_thousand_characters() -> None:
    _, question = await transcribed(told())

    log = question.messages[1]["content"].partition("About the log")[2].partition("<<<end")[0]
    assert len(log) <= 2_000
    assert "chars left out" in log


async def asked_through_a_small_model(turns: int) -> tuple[Asked, SummaryModel, SummaryModel]:
    """Ask a model whose summaries another one writes, with a quarter of its window."""
    main = SummaryModel(window=16_000)
    other = SummaryModel(window=4_000, names=("small",))
    async with fake_model(other) as second:
        summary = {"model": "small", "base_url": second.url}
        async with talking(main, window=16_000, summary=summary) as talk:
            return await talk.ask(long_chat(turns)), main, other


async def test_a_transcript_is_streamed_and_fits_the_other_models_window() -> None:
    """BUGS 11, 35, FAULTS C13: strictly below the window that the other server names."""
    _, main, other = await asked_through_a_small_model(22)

    assert other.summaries
    assert main.summaries == other.overflows == []
    for question in other.summaries:
        assert question.fields["stream"] is True
        assert question.tokens + question.max_tokens < 4_000


async def test_a_model_that_reads_little_at_a_time_is_asked_until_much_is_won() -> None:
    """BUGS 10: a compaction that ends just below the trigger would be followed by the next one."""
    asked, _, other = await asked_through_a_small_model(25)

    before, after = asked.tokens
    assert before > 9_600
    assert after < 9_600 * 0.7
    assert 2 <= len(other.summaries) <= 4


async def test_every_question_has_a_nonce_of_its_own() -> None:
    """FAULTS C14: what nobody can know beforehand, nobody can forge."""
    nonces = set()
    for _ in range(2):
        _, question = await transcribed(told())
        nonces.add(json.dumps(question.messages[0]))

    assert len(nonces) == 2
