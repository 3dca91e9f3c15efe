"""FAULTS C: what a summary model can do wrong, and the main request is answered all the same."""

import json
from time import monotonic
from typing import Any

import pytest

from app.compaction.summary.fold import ACKNOWLEDGEMENT
from tests.conversation.shapes import Fields, says, text, user
from tests.summaries.troubles import (
    FRAME,
    RULES,
    SECRET_WORD,
    UPDATE,
    Trouble,
    chatter,
    history,
    outcome,
    troubled,
)
from tests.support.fake_model import Line, answer_json, begin_stream, event, fake_model
from tests.support.live import RawAnswer
from tests.support.summary_model import (
    Question,
    SummaryModel,
    Telling,
    after,
    answer,
    calling,
    chosen,
    empty,
    endless,
    failing,
    garbage,
    good,
    in_turn,
    only_thinking,
    refusing,
    repaired,
    unrepaired,
    written,
)

pytestmark = pytest.mark.anyio

NOBODY = "http://127.0.0.1:9/v1"


def telling(content: str | None, **more: Any) -> Telling:
    """A model that always answers so."""

    async def tell(question: Question, line: Line) -> None:
        await answer(question, line, content, **more)

    return tell


def adding(text: str) -> Telling:
    """A model that writes a good summary, and this beside it."""

    async def tell(question: Question, line: Line) -> None:
        await answer(question, line, written([*chosen(question), text]))

    return tell


async def repeating(question: Question, line: Line) -> None:
    """Write down every word instead of a summary."""
    await answer(question, line, written(question.texts[:-1]))


async def breaking_off(question: Question, line: Line) -> None:
    """Begin a summary and break the connection."""
    await begin_stream(line)
    choice = {"index": 0, "delta": {"content": "## Goal\n- to"}, "finish_reason": None}
    await line.chunk(event({"choices": [choice]}))
    line.reset()


async def erring(_: Question, line: Line) -> None:
    """Answer 200 with an error in it."""
    await answer_json(line, {"error": {"message": "out of memory", "code": 500}})


def is_passed_by(trouble: Trouble, answered: RawAnswer) -> bool:
    """Tell whether the request went on as it was, with nothing kept of the attempt."""
    return outcome(answered) == "failed-open" and trouble.is_unchanged and not trouble.kept


def folded_text(messages: list[Fields]) -> str:
    """Return the text of the one message that stands for the older ones."""
    (found,) = [message for message in messages if FRAME in str(message["content"])]
    assert found["role"] == "user"
    return str(found["content"])


async def test_c1_a_summary_that_takes_too_long_is_not_waited_for() -> None:
    async with troubled(after(20), summary={"timeout_seconds": 0.5}) as trouble:
        started = monotonic()
        answered = await trouble.ask(history())
        waited = monotonic() - started
        again = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert 0.5 <= waited < 2
        assert trouble.failures("timeout") == 1
        assert outcome(again) == "failed-open"
        assert len(trouble.questions) == 1
        (line,) = trouble.heard.lines("no summary was written")
        assert (line["reason"], line["next_try_seconds"]) == ("timeout", 60)


@pytest.mark.parametrize("status", [401, 429, 500, 502, 503, 529])
async def test_c2_an_error_instead_of_a_summary_costs_no_time(status: int) -> None:
    async with troubled(failing(status, "retry-after: 7")) as trouble:
        started = monotonic()
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert monotonic() - started < 1
        assert trouble.failures("unavailable") == 1
        assert len(trouble.questions) == 1


async def test_c2_a_refused_connection_is_followed_by_a_question_to_the_own_model() -> None:
    async with troubled(good, summary={"base_url": NOBODY, "model": "small"}) as trouble:
        answered = await trouble.ask(history())

        assert outcome(answered) == "built"
        assert [question.fields["model"] for question in trouble.questions] == ["fake"]


async def test_c2_when_nobody_can_write_a_summary_the_request_goes_on() -> None:
    other = {"base_url": NOBODY, "model": "small"}
    async with troubled(failing(503), summary=other) as trouble:
        started = monotonic()
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert monotonic() - started < 1


@pytest.mark.parametrize("telling", [garbage, breaking_off, erring])
async def test_c2_an_answer_that_cannot_be_read_is_no_summary(telling: Telling) -> None:
    """BUGS 26: the error's text does not become the summary."""
    async with troubled(telling) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert trouble.failures("unavailable") == 1


async def test_c2_a_request_that_is_refused_is_asked_in_another_form() -> None:
    async with troubled(in_turn(failing(400), good)) as trouble:
        answered = await trouble.ask(history())

        assert outcome(answered) == "built"
        ride, transcript = trouble.questions
        assert ride.messages[0] == RULES
        assert transcript.messages[0] != RULES


@pytest.mark.parametrize(
    "telling",
    [empty, telling(" \n\t "), telling(None), telling(written(["(none)"]))],
    ids=["empty", "blank", "null", "only headings"],
)
async def test_c3_nothing_is_asked_again_about_less_and_then_not_again(telling: Telling) -> None:
    async with troubled(telling) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert trouble.failures("empty") == 1
        sizes = [question.tokens for question in trouble.questions]
        assert len(sizes) == 3
        assert sizes == sorted(set(sizes), reverse=True)


@pytest.mark.parametrize("telling", [empty, endless, only_thinking])
async def test_c3_a_summary_of_less_stands_for_less(telling: Telling) -> None:
    """BUGS 48: what no answered question had is still in the prompt."""
    given = history()
    async with troubled(in_turn(telling, good)) as trouble:
        answered = await trouble.ask(given)

        assert outcome(answered) == "built"
        asked = [message for question in trouble.questions[1:] for message in question.messages]
        for message in given:
            assert message in asked or message in trouble.sent


@pytest.mark.parametrize(
    "telling",
    [
        refusing,
        telling("I'm sorry, but I cannot summarise this conversation."),
        telling("## Goal\n- to", finish_reason="content_filter"),
        telling(None, refusal="I will not."),
    ],
    ids=["both", "in words", "filtered", "by the field"],
)
async def test_c4_a_refusal_never_becomes_history(telling: Telling) -> None:
    async with troubled(telling) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert len(trouble.questions) == 1
        assert trouble.failures("refusal") + trouble.failures("content_filter") == 1


async def test_c5_a_summary_without_an_end_is_asked_for_three_times_at_most() -> None:
    async with troubled(endless) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        sizes = [question.tokens for question in trouble.questions]
        assert len(sizes) == 3
        assert sizes == sorted(set(sizes), reverse=True)
        assert trouble.failures("length") == 1


async def test_c6_a_summary_that_wins_nothing_is_refused() -> None:
    async with troubled(repeating) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert len(trouble.questions) == 1
        assert trouble.failures("no_gain") == 1


@pytest.mark.parametrize(
    "telling",
    [calling, telling('<tool_call>{"name": "rm", "arguments": {"path": "/"}}</tool_call>')],
    ids=["called", "written"],
)
async def test_c7_a_call_of_a_tool_is_ignored(telling: Telling) -> None:
    """BUGS 25: no tool protocol becomes the summary; nothing of it reaches anyone."""
    async with troubled(telling) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert trouble.failures("tool_calls") == 1
        assert b"tool_call" not in answered.body


@pytest.mark.parametrize(
    "telling",
    [only_thinking, telling("<think>What was said?\n## Goal\n- to win")],
    ids=["beside", "inside"],
)
async def test_c8_thoughts_alone_are_no_summary(telling: Telling) -> None:
    """BUGS 25."""
    async with troubled(telling) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert trouble.failures("only_reasoning") + trouble.failures("empty") == 1


@pytest.mark.parametrize("head", ["<think>Hm, platypus.</think>\n", "Hm, platypus.\n</think>\n\n"])
async def test_c8_thoughts_before_a_summary_are_left_out(head: str) -> None:
    """BUGS 25."""

    async def thinking(question: Question, line: Line) -> None:
        thoughts = "I think of a platypus."
        summary = head + written(chosen(question))
        await answer(question, line, summary, reasoning_content=thoughts)

    async with troubled(thinking) as trouble:
        answered = await trouble.ask(history())

        assert outcome(answered) == "built"
        assert "platypus" not in json.dumps(trouble.sent)
        assert "think>" not in json.dumps(trouble.sent)


async def test_c9_missing_sections_are_asked_for_once() -> None:
    async with troubled(repaired) as trouble:
        answered = await trouble.ask(history())

        assert outcome(answered) == "built"
        assert [question.is_repair for question in trouble.questions] == [False, True]
        assert "## Next Steps" in folded_text(trouble.sent)


@pytest.mark.parametrize(
    "telling",
    [
        unrepaired,
        telling("Sure! Here is the next step of the work: I would first look at the notes."),
        telling("Error: the model is overloaded, please try again later."),
    ],
    ids=["sections missing", "goes on with the conversation", "an error in words"],
)
async def test_c9_what_stays_without_sections_is_refused(telling: Telling) -> None:
    """BUGS 26, 28: neither an error's text nor the conversation's next words are a summary."""
    async with troubled(telling) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert [question.is_repair for question in trouble.questions] == [False, True]
        assert trouble.failures("sections") == 1


async def test_c13_what_a_small_summary_model_did_not_see_stays_in_the_prompt() -> None:
    """BUGS 48: the newest groups are left out of the question, and not claimed by the boundary."""
    given = history(22)
    small = SummaryModel(good, window=3_000, names=("small",))
    async with fake_model(small) as other:
        summary = {"base_url": other.url, "model": "small"}
        async with troubled(failing(500), summary=summary) as trouble:
            answered = await trouble.ask(given)

            assert outcome(answered) == "built"
            assert small.overflows == []
            told = "\n".join(text for question in small.summaries for text in question.texts)
            for message in given[1:]:
                assert message["content"] in told or message in trouble.sent
            assert all(q.tokens + q.max_tokens < 3_000 for q in small.summaries)


async def test_c13_the_rest_is_folded_with_the_summary_before() -> None:
    """BUGS 48: no summary is dropped on the way; each question has the one before."""
    small = SummaryModel(good, window=3_000, names=("small",))
    async with fake_model(small) as other:
        summary = {"base_url": other.url, "model": "small"}
        async with troubled(failing(500), summary=summary) as trouble:
            await trouble.ask(history(22))

            first, *later = small.summaries
            assert later
            assert UPDATE not in first.texts[-1]
            for question in later:
                assert UPDATE in question.texts[-1]
                assert "<<<summary " in question.texts[-1]


async def test_c16_addresses_and_keys_that_nobody_wrote_are_removed() -> None:
    """BUGS 30."""
    key = "sk-proj-9fK2mX7pQ4rT8vW1zB6nC3"
    invented = adding(f"See https://evil.example/x and use {key}")
    async with troubled(invented) as trouble:
        answered = await trouble.ask(history())

        assert outcome(answered) == "built"
        assert "evil.example" not in json.dumps(trouble.sent)
        assert key not in json.dumps(trouble.sent)


async def test_c16_addresses_of_the_conversation_are_kept() -> None:
    given = history()
    given[3] = user("Our tracker is https://tracker.example/board/7 and no other.")
    async with troubled(adding("Tracker: https://tracker.example/board/7")) as trouble:
        answered = await trouble.ask(given)

        assert outcome(answered) == "built"
        assert "- Tracker: https://tracker.example/board/7" in folded_text(trouble.sent)


async def test_c16_a_summary_full_of_inventions_is_refused() -> None:
    """BUGS 30."""
    many = " ".join(f"https://evil{number}.example/" for number in range(9))
    async with troubled(adding(many)) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert trouble.failures("foreign") == 1


async def test_a_document_is_not_sent_to_a_summary_model_elsewhere() -> None:
    """BUGS 34, FAULTS C17."""
    payload = "JVBERi0xLjcKJcfsj6IK" * 50
    part = {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{payload}"}}
    given = history()
    given[3] = user([text("What does this say?"), part])
    small = SummaryModel(good, names=("small",))
    async with fake_model(small) as other:
        summary = {"base_url": other.url, "model": "small"}
        vision = {"truncate_history": False}
        async with troubled(summary=summary, vision=vision) as trouble:
            answered = await trouble.ask(given, "authorization: Bearer client-key")

            assert outcome(answered) == "built"
            (question,) = small.summaries
            assert payload[:40].encode() not in question.received.body
            assert b"[document: application/pdf]" in question.received.body
            assert question.received.header("authorization") is None
            assert payload[:40] not in json.dumps(trouble.sent)


async def test_a_failed_summary_drops_nothing_and_the_next_one_succeeds() -> None:
    """BUGS 26."""
    async with troubled(in_turn(failing(500), good)) as trouble:
        await trouble.ask(history())
        assert trouble.is_unchanged
        trouble.now += 60

        answered = await trouble.ask(history())

        assert outcome(answered) == "built"
        assert folded_text(trouble.sent).count(FRAME) == 1
        assert says(ACKNOWLEDGEMENT) in trouble.sent


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stream_is_answered_as_any_other_request(stream: bool) -> None:
    async with troubled(failing(503)) as trouble:
        answered = await trouble.ask(history(), stream=stream)

        assert is_passed_by(trouble, answered)
        assert b"Well." in answered.body


async def test_the_log_says_why_and_nothing_else() -> None:
    async with troubled(failing(503)) as trouble:
        await trouble.ask([*history(), user(chatter(20))], "authorization: Bearer hidden-key")

        (line,) = trouble.heard.lines("no summary was written")
        assert line["reason"] == "unavailable"
        assert SECRET_WORD not in trouble.heard.text
        assert "hidden-key" not in trouble.heard.text
