"""How another model is asked for a summary: it reads a transcript, and nothing else."""

import json
from typing import Any

import pytest

from tests.journeys.summaries.talking import SYSTEM, long_chat, prose, talking, turns
from tests.journeys.trimming.growing import Asked, step
from tests.support.fake_model import FakeModel, fake_model
from tests.support.summary_model import Question, SummaryModel
from tests.unit.chat.shapes import PIXEL, Fields, image, says, text, user

pytestmark = pytest.mark.anyio

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


async def transcribed(
    messages: list[Fields], window: int = 32_000, about: str = ""
) -> tuple[FakeModel, Question]:
    """Let another server write the summary; return it and its first question about this."""
    main = SummaryModel(window=8_000)
    other = SummaryModel(window=window, names=("small",))
    async with fake_model(other) as second:
        summary = {"model": "small", "base_url": second.url, "api_key": "summary-key"}
        sections: dict[str, Any] = {"summary": summary, "vision": {"truncate_history": False}}
        async with talking(main, *CLIENT, **sections) as talk:
            talk.fields |= {"tools": TOOLS, "user": "client-user", "metadata": {"a": "client-meta"}}
            await talk.ask(messages)
    assert main.summaries == []
    return second, next(it for it in other.summaries if about in it.messages[1]["content"])


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
        "x-chat-proxy-purpose",
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


def log_in(question: Question) -> str:
    """Return what a transcript shows of the log in `told`."""
    shown: str = question.messages[1]["content"]
    log = shown.partition("(result of read)\nAbout the log")[2]
    return "About the log" + log.partition("\n<<<end")[0]


async def test_a_transcript_shows_tool_results_whole() -> None:
    """What is folded was shown to the model that summarises it."""
    _, question = await transcribed(told())

    assert log_in(question) == prose(3_000, "the log")


async def test_a_step_that_does_not_fit_alone_is_cut_to_two_thousand_characters() -> None:
    _, question = await transcribed(told(), window=3_500, about="About the log")

    log = log_in(question)
    assert question.tokens + question.max_tokens < 3_500
    assert 1_500 <= len(log) <= 2_000
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
    _, main, other = await asked_through_a_small_model(25)

    assert other.summaries
    assert main.summaries == other.overflows == []
    for question in other.summaries:
        assert question.fields["stream"] is True
        assert question.tokens + question.max_tokens < 4_000


async def test_a_model_that_reads_little_at_a_time_is_asked_about_parts_in_one_pass() -> None:
    """BUGS 10: a compaction that ends just below the trigger would be followed by the next one."""
    asked, main, other = await asked_through_a_small_model(25)

    before, after = asked.tokens
    folded = 25 - sum("src/module_" in str(it["content"]) for it in main.chats[-1].messages[2:])
    shown = ["\n".join(question.texts) for question in other.summaries]
    told = [sum(f"src/module_{number}.py" in text for text in shown) for number in range(folded)]
    assert before > 11_200
    assert after <= 11_200 * 0.5
    assert 2 <= len(other.summaries) <= 8
    assert told == [1] * folded


async def test_every_question_has_a_nonce_of_its_own() -> None:
    """FAULTS C14: what nobody can know beforehand, nobody can forge."""
    nonces = set()
    for _ in range(2):
        _, question = await transcribed(told())
        nonces.add(json.dumps(question.messages[0]))

    assert len(nonces) == 2
