"""`POST /v1/chat/compact` where there is nothing to win, no summary, or no sense in the request."""

from typing import Any

import pytest

from chat_proxy.proxy.manual import compact as manual
from tests.journeys.manual.hands import (
    SHORT,
    brief,
    compacted,
    model,
    post_compact,
    small_chat,
)
from tests.journeys.summaries.talking import (
    SYSTEM,
    label,
    prose,
    talking,
    turns,
)
from tests.support.fake_model import Line
from tests.support.summary_model import (
    Question,
    Telling,
    after,
    answer,
    calling,
    empty,
    failing,
    good,
    in_turn,
    written,
)
from tests.unit.chat.shapes import Fields, calls, result, says, system, user

pytestmark = pytest.mark.anyio


async def test_a_summary_that_won_too_little_stands_in_no_larger_ones_way() -> None:
    given = [SYSTEM, user(prose(150, "words that are kept")), says("Yes."), *turns(8, 240)]
    async with talking(model(brief)) as talk:
        first = await compacted(talk, given, keep=8)
        done = await compacted(talk, given)

    assert first["note"] == manual.TOO_LITTLE
    assert done["checkpoint"] == {"covered": len(given) - 2}


async def test_a_model_that_goes_on_talking_writes_no_summary() -> None:
    """BUGS 28."""

    async def talkative(question: Question, line: Line) -> None:
        await answer(question, line, "Sure! The next module reads tables.")

    async with talking(model(talkative)) as talk:
        answered = await post_compact(talk.line, small_chat())

    assert (answered.status, answered.error["code"]) == (502, "summary_failed")


@pytest.mark.parametrize(
    "given",
    [
        [user("Hi")],
        [system(), user("Hi"), says("Hello.")],
        [system()],
        [user("Look."), calls("a"), result("a"), says("Sunny.")],
    ],
)
async def test_a_single_turn_comes_back_unchanged_with_a_friendly_note(given: list[Fields]) -> None:
    async with talking(model()) as talk:
        done = await compacted(talk, given)

    assert done["messages"] == given
    assert done["messages_compacted"] == 0
    assert done["checkpoint"] == {"covered": 0}
    assert done["note"] == manual.NOTHING_TO_FOLD
    assert talk.brain.summaries == []


async def test_a_folded_list_with_nothing_new_comes_back_unchanged() -> None:
    async with talking(model()) as talk:
        folded = (await compacted(talk, small_chat()))["messages"]
        done = await compacted(talk, folded)

    assert (done["messages"], done["note"]) == (folded, manual.NOTHING_TO_FOLD)


async def test_too_little_to_win_anything_comes_back_unchanged_with_a_note() -> None:
    given = [user("Hi"), says("Hello."), user("Sun?"), says("Yes.")]
    async with talking(model()) as talk:
        done = await compacted(talk, given)

    assert (done["messages"], done["note"]) == (given, manual.TOO_LITTLE)


async def test_too_little_since_the_last_summary_leaves_that_as_it_is() -> None:
    given = small_chat()
    later = [*given, user("Sun?"), says("Yes.")]

    async def longer(question: Question, line: Line) -> None:
        await answer(question, line, SHORT + "\n" + prose(900, "this and that"))

    async with talking(model(in_turn(good, longer))) as talk:
        await compacted(talk, given)
        done = await compacted(talk, later)

    assert done["note"] == manual.TOO_LITTLE
    assert done["checkpoint"] == {"covered": len(given) - 2}


async def test_a_summary_that_makes_the_prompt_longer_is_not_used() -> None:
    """Its frame and the user's own words count too."""
    given = [user("Word " * 150), says("Yes. " * 20), user("And?"), says("No.")]

    async def repeating(question: Question, line: Line) -> None:
        await answer(question, line, written(["The user says this word only: word."]))

    async with talking(model(repeating)) as talk:
        done = await compacted(talk, given)

    assert (done["messages"], done["note"]) == (given, manual.TOO_LITTLE)


async def test_where_summaries_are_switched_off_it_says_so() -> None:
    async with talking(model(), summary={"enabled": False}) as talk:
        done = await compacted(talk, small_chat())

    assert done["note"] == manual.SWITCHED_OFF
    assert talk.brain.summaries == []


@pytest.mark.parametrize(
    ("telling", "why"),
    [
        (failing(500), "cannot be reached"),
        (failing(400), "refused"),
        (empty, "no usable summary (empty)"),
        (calling, "no usable summary (tool_calls)"),
        (after(9), "did not answer in time"),
    ],
)
async def test_a_failing_summary_model_is_told_clearly_and_nothing_is_lost(
    telling: Telling, why: str
) -> None:
    given = small_chat()
    async with talking(model(telling), summary={"timeout_seconds": 1}) as talk:
        answered = await post_compact(talk.line, given)
        asked = await talk.ask([*given, user("And now?")])

        assert answered.status == 502
        assert answered.error["code"] == "summary_failed"
        assert answered.headers["x-chat-proxy-error"] == "summary_failed"
        assert label(answered) == "failed-open"
        assert why in answered.error["message"]
        assert asked.upstream == asked.body


async def test_after_a_failure_the_user_may_try_again_at_once() -> None:
    async with talking(model(in_turn(failing(500), good))) as talk:
        first = await post_compact(talk.line, small_chat())
        second = await post_compact(talk.line, small_chat())

    assert (first.status, second.status) == (502, 200)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "Hi"}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": ["Hi"]}, "messages"),
        ({"model": ""}, "model"),
        ({"model": 7}, "model"),
        ({"keep": 0}, "keep"),
        ({"keep": True}, "keep"),
        ({"keep": 1.5}, "keep"),
        ({"keep": "2"}, "keep"),
        ({"instruction": ["a"]}, "instruction"),
    ],
)
async def test_bad_input_is_refused(fields: dict[str, Any], param: str) -> None:
    async with talking(model()) as talk:
        given = {"messages": small_chat(), **fields}
        answered = await post_compact(talk.line, given.pop("messages"), **given)

    assert answered.status == 400
    assert answered.error["param"] == param
    assert talk.brain.summaries == []


async def test_a_web_page_cannot_make_a_browser_ask_for_it() -> None:
    async with talking(model()) as talk:
        await talk.line.send(
            b"POST /v1/chat/compact HTTP/1.1\r\nhost: x\r\norigin: http://evil.example\r\n"
            b"content-type: text/plain\r\ncontent-length: 2\r\n\r\n{}"
        )
        answered = await talk.line.answer()

    assert answered.status == 415


async def test_only_post_is_answered() -> None:
    async with talking(model()) as talk:
        await talk.line.send(b"GET /v1/chat/compact HTTP/1.1\r\nhost: x\r\n\r\n")
        answered = await talk.line.answer()

    assert answered.status == 405
