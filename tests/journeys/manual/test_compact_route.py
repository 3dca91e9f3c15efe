"""`POST /v1/chat/compact`: the client gets its conversation folded, and everybody finds it so."""

import json
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.compaction.summary.fold import ACKNOWLEDGEMENT, TITLE
from chat_proxy.proxy.manual import compact as manual
from tests.journeys.manual.hands import (
    SHORT,
    WISH,
    compacted,
    model,
    post_compact,
    sent,
    small_chat,
)
from tests.journeys.summaries.talking import (
    SYSTEM,
    label,
    long_chat,
    prose,
    talking,
    talking_to,
    turns,
)
from tests.support.fake_model import Line, fake_model
from tests.support.strict_template import complaints
from tests.support.summary_model import (
    Question,
    SummaryModel,
    Telling,
    after,
    answer,
    calling,
    empty,
    failing,
    good,
    in_turn,
)
from tests.unit.chat.shapes import Fields, calls, image, result, says, system, text, user

pytestmark = pytest.mark.anyio

MARKER = "[chat-proxy checkpoint covered="
UPDATE = "An earlier summary stands at the beginning"
WISHED = f"The user wishes for this summary:\n{WISH}"


async def brief(question: Question, line: Line) -> None:
    """Write the shortest summary that there is."""
    await answer(question, line, SHORT)


async def test_all_but_the_last_turn_is_folded_whatever_the_size() -> None:
    given = small_chat()
    async with talking(model()) as talk:
        done = await compacted(talk, given)

    system_message, folded, acknowledgement, *tail = done["messages"]
    assert system_message == SYSTEM
    assert folded["role"] == "user"
    assert folded["content"].startswith(TITLE)
    assert MARKER in folded["content"]
    assert acknowledgement == says(ACKNOWLEDGEMENT)
    assert tail == given[-2:]
    assert done["messages_compacted"] == len(given) - 3
    assert done["checkpoint"] == {"covered": len(given) - 2}
    assert done["summary"].startswith("## Goal")
    assert done["summary"] in folded["content"]
    assert done["tokens_after"] < done["tokens_before"]
    assert "note" not in done
    assert complaints(done["messages"]) == []


async def test_as_many_turns_stay_as_the_client_says() -> None:
    given = small_chat()
    async with talking(model()) as talk:
        done = await compacted(talk, given, keep=3)

    assert done["messages"][3:] == given[-6:]
    assert done["checkpoint"] == {"covered": len(given) - 6}


async def test_a_summary_that_won_too_little_stands_in_no_larger_ones_way() -> None:
    given = [SYSTEM, user(prose(300, "words that are kept")), says("Yes."), *turns(8, 240)]
    async with talking(model(brief)) as talk:
        first = await compacted(talk, given, keep=8)
        done = await compacted(talk, given)

    assert first["note"] == manual.TOO_LITTLE
    assert done["checkpoint"] == {"covered": len(given) - 2}


async def test_a_turn_that_is_not_answered_yet_stays() -> None:
    given = [*small_chat(), user("And now?")]
    async with talking(model()) as talk:
        done = await compacted(talk, given)

    assert done["messages"][3:] == given[-1:]


async def test_the_last_turn_stays_with_its_calls_and_results() -> None:
    steps = [user("Look."), calls("a", "b"), result("a", "sunny"), result("b", "rainy")]
    given = [*small_chat(), *steps]
    async with talking(model()) as talk:
        done = await compacted(talk, given)

    assert done["messages"][3:] == steps


async def test_messages_that_stay_keep_their_bytes() -> None:
    odd = '{"role" : "user",  "content": "half \\ud83d an emoji", "x": 1e2}'
    given = json.dumps(small_chat())[:-1] + f",{odd}]"
    body = f'{{"model":"fake","messages":{given}}}'.encode()
    async with talking(model()) as talk:
        head = f"POST /v1/chat/compact HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        await talk.line.send(head.encode() + body)
        answered = await talk.line.answer()

    assert answered.status == 200
    assert f",{odd}]".encode() in answered.body


async def test_the_instruction_reaches_the_summary_model() -> None:
    async with talking(model()) as talk:
        await compacted(talk, small_chat(), instruction=WISH)

    (question,) = talk.brain.summaries
    assert question.texts[-1].endswith(WISHED)


async def test_an_instruction_reaches_a_model_of_its_own_for_summaries_too() -> None:
    small = SummaryModel(good, names=("small",))
    async with fake_model(small) as other:
        summary = {"base_url": other.url, "model": "small"}
        async with talking(model(), summary=summary) as talk:
            await compacted(talk, small_chat(), instruction=WISH)

    assert WISHED in "\n".join(small.summaries[0].texts)
    assert talk.brain.summaries == []


async def test_the_users_rules_stay_word_for_word() -> None:
    """BUGS 31: a summary that loses them does not cost them."""
    rule = "Never delete the folder of the penguins."
    given = [SYSTEM, user(rule), says("Fine."), *small_chat()[1:]]
    async with talking(model(brief)) as talk:
        done = await compacted(talk, given)

    assert rule in done["messages"][1]["content"]


async def test_a_model_that_goes_on_talking_writes_no_summary() -> None:
    """BUGS 28."""

    async def talkative(question: Question, line: Line) -> None:
        await answer(question, line, "Sure! The next module reads tables.")

    async with talking(model(talkative)) as talk:
        answered = await post_compact(talk.line, small_chat())

    assert (answered.status, answered.error["code"]) == (502, "summary_failed")


@pytest.mark.parametrize("size", ["small", "large"])
async def test_later_requests_with_the_original_history_reuse_it(size: str) -> None:
    given = small_chat() if size == "small" else long_chat(20)[:-1]
    async with talking(model()) as talk:
        done = await compacted(talk, given)
        asked = await talk.ask([*given, user("And now?")])
        again = await talk.ask([*given, user("And now?"), says("Well."), user("And then?")])

        assert label(asked) == label(again) == "reused"
        assert talk.brain.chats[0].messages == [*done["messages"], user("And now?")]
        assert talk.broken() == []


async def test_another_replica_finds_it_too(tmp_path: Path) -> None:
    """However small the conversation is: they share a store, and no session."""
    given = small_chat()
    store = {"url": f"sqlite:///{tmp_path}/shared.db"}
    async with (
        fake_model(model()) as upstream,
        talking_to(upstream, store=store) as here,
        talking_to(upstream, store=store) as there,
    ):
        await compacted(here, given)
        asked = await there.ask([*given, user("And now?")])

    assert label(asked) == "reused"


async def test_other_conversations_of_the_tenant_go_on_as_they_are() -> None:
    async with talking(model()) as talk:
        await compacted(talk, small_chat())
        asked = await talk.ask([SYSTEM, *turns(3, 240, first=50), user("And now?")])

        assert label(asked) == "none"
        assert asked.upstream == asked.body


async def test_a_request_without_messages_goes_on_as_it_is() -> None:
    async with talking(model()) as talk:
        await compacted(talk, small_chat())
        asked = await talk.ask([])

    assert asked.upstream == asked.body


async def test_another_tenant_has_no_part_in_it() -> None:
    one, two = "authorization: Bearer one", "authorization: Bearer two"
    given = small_chat()
    async with talking(model()) as talk:
        await post_compact(talk.line, given, one)
        theirs = await talk.ask([*given, user("And now?")], two)
        ours = await talk.ask([*given, user("And now?")], one)

    assert (label(theirs), label(ours)) == ("none", "reused")


async def test_the_compacted_list_goes_on_as_it_is_and_is_brought_up_to_date_later() -> None:
    async with talking(model()) as talk:
        done = await compacted(talk, small_chat())
        asked = await talk.ask([*done["messages"], user("And now?")])
        assert asked.upstream == asked.body

        more = [*done["messages"], *turns(3, 240, first=60)]
        second = await compacted(talk, more)

        assert UPDATE in talk.brain.summaries[-1].texts[-1]
        assert second["messages"][3:] == more[-2:]
        assert json.dumps(second["messages"]).count(MARKER) == 1


async def test_the_same_again_asks_no_model_again() -> None:
    given = small_chat()
    async with talking(model()) as talk:
        first = await compacted(talk, given)
        answered = await post_compact(talk.line, given)

        assert json.loads(answered.body) == first
        assert label(answered) == "reused"
        assert len(talk.brain.summaries) == 1


async def test_another_instruction_has_it_written_anew() -> None:
    given = small_chat()
    async with talking(model(in_turn(good, brief))) as talk:
        first = await compacted(talk, given)
        second = await compacted(talk, given, instruction=WISH)
        await talk.ask([*given, user("And now?")])

        assert first["summary"] != second["summary"] == SHORT
        assert UPDATE not in talk.brain.summaries[-1].texts[-1]
        assert SHORT in sent(talk)[1]["content"]


async def test_more_turns_than_an_earlier_summary_left_come_back() -> None:
    given = small_chat()
    async with talking(model()) as talk:
        await compacted(talk, given)
        done = await compacted(talk, given, keep=3)
        await talk.ask([*given, user("And now?")])

        assert done["messages"][3:] == given[-6:]
        assert sent(talk)[3:-1] == given[-6:]


async def test_what_was_said_since_is_worked_into_the_earlier_summary() -> None:
    given = small_chat()
    later = [*given, *turns(4, 240, first=70)]
    async with talking(model(brief)) as talk:
        await compacted(talk, given)
        done = await compacted(talk, later)

        assert UPDATE in talk.brain.summaries[-1].texts[-1]
        assert done["checkpoint"] == {"covered": len(later) - 2}
        assert done["messages"][3:] == later[-2:]


async def test_a_conversation_far_over_the_window_is_folded_in_rounds() -> None:
    given = long_chat(60)[:-1]
    async with talking(model(brief, window=8_000)) as talk:
        done = await compacted(talk, given)

        assert len(talk.brain.summaries) > 2
        assert done["checkpoint"] == {"covered": len(given) - 2}
        assert talk.brain.overflows == []


async def test_rounds_that_were_written_stay_when_a_later_one_fails() -> None:
    given = long_chat(40)[:-1]
    async with talking(model(in_turn(brief, failing(500)), window=8_000)) as talk:
        done = await compacted(talk, given)

    assert 0 < done["messages_compacted"] < len(given) - 3
    assert done["note"].startswith(manual.STOPPED_EARLY)
    assert done["messages"][-2:] == given[-2:]


async def test_what_is_too_much_for_once_is_folded_when_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manual, "MOST_ROUNDS", 1)
    given = long_chat(24)[:-1]
    async with talking(model(brief, window=8_000)) as talk:
        first = await compacted(talk, given)
        second = await compacted(talk, given)

    assert "ask again" in first["note"]
    assert first["messages_compacted"] < second["messages_compacted"]


async def test_turns_that_the_vision_stage_drops_are_summed_up_as_well() -> None:
    given = [*small_chat(), user([text("And this?"), image()]), says("A penguin.")]
    async with talking(model()) as talk:
        done = await compacted(talk, given)
        await talk.ask([*given, user("And now?")])

        assert done["messages"][3:] == given[-2:]
        assert sent(talk)[1]["content"].startswith(TITLE)


async def test_a_model_whose_window_nobody_knows_is_compacted_too() -> None:
    given = small_chat()
    async with talking(model(), budget={"context_window": None}) as talk:
        await compacted(talk, given)
        asked = await talk.ask([*given, user("And now?")])

    assert label(asked) == "reused"


@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_whoever_asks_for_it_gets_it_in_every_mode(mode: str) -> None:
    async with talking(model(), mode=mode) as talk:
        done = await compacted(talk, small_chat())

    assert done["messages_compacted"] > 0


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
    async with talking(model(brief)) as talk:
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
