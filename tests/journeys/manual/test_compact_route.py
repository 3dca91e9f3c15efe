"""`POST /v1/chat/compact`: the client gets its conversation folded."""

import json

import pytest

from chat_proxy.compaction.summary.fold import ACKNOWLEDGEMENT
from chat_proxy.compaction.summary.fold_text import TITLE
from chat_proxy.proxy.summaries.writing import parts
from tests.journeys.manual.hands import (
    MARKER,
    WISH,
    brief,
    compacted,
    model,
    post_compact,
    small_chat,
)
from tests.journeys.summaries.talking import (
    SYSTEM,
    long_chat,
    talking,
)
from tests.support.fake_model import Line, fake_model
from tests.support.strict_template import complaints
from tests.support.summary_model import (
    Question,
    SummaryModel,
    failing,
    good,
    in_turn,
)
from tests.unit.chat.shapes import calls, result, says, user

pytestmark = pytest.mark.anyio

WISHED = f"The user wishes for this summary:\n{WISH}"


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


async def test_a_conversation_far_over_the_window_is_folded_in_parts() -> None:
    given = long_chat(60)[:-1]
    async with talking(model(brief, window=8_000)) as talk:
        done = await compacted(talk, given)

        assert len(talk.brain.summaries) > 2
        assert done["checkpoint"] == {"covered": len(given) - 2}
        assert talk.brain.overflows == []


def is_first(question: Question) -> bool:
    """Return whether a question shows the first part of the chat."""
    return any("Question 1:" in said for said in question.texts)


async def test_a_part_that_failed_is_asked_for_once_more() -> None:
    given = long_chat(40)[:-1]
    async with talking(model(in_turn(failing(500), brief), window=8_000)) as talk:
        done = await compacted(talk, given)

        asked = [question.texts for question in talk.brain.summaries]
        assert len(asked) > 2
        assert asked[-1] in asked[:-1]
        assert done["checkpoint"] == {"covered": len(given) - 2}


async def test_a_part_that_fails_again_ends_what_the_summary_covers() -> None:
    """What no model saw is never claimed: it stays in the prompt."""
    given = long_chat(40)[:-1]

    async def only_first(question: Question, line: Line) -> None:
        await (brief if is_first(question) else failing(500))(question, line)

    async with talking(model(only_first, window=8_000)) as talk:
        done = await compacted(talk, given)

        covered = done["checkpoint"]["covered"]
        shown = "\n".join(next(filter(is_first, talk.brain.summaries)).texts)
        assert 0 < covered < len(given) - 2
        assert given[covered - 1]["content"] in shown
        assert given[covered]["content"] not in shown
        assert given[covered:] == done["messages"][-len(given[covered:]) :]


async def test_where_the_first_part_fails_again_nothing_is_changed() -> None:
    given = long_chat(40)[:-1]

    async def failing_first(question: Question, line: Line) -> None:
        await (failing(500) if is_first(question) else brief)(question, line)

    async with talking(model(failing_first, window=8_000)) as talk:
        answered = await post_compact(talk.line, given)

    assert (answered.status, answered.error["code"]) == (502, "summary_failed")


async def test_what_is_too_much_for_all_parts_is_in_the_notes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One call folds it all; the oldest messages are shown to no model and noted without one."""
    monkeypatch.setattr(parts, "MAX_PARTS", 2)
    given = long_chat(40)[:-1]
    async with talking(model(brief, window=8_000)) as talk:
        done = await compacted(talk, given)

        assert len(talk.brain.summaries) == 2
        assert not any("Question 1:" in said for it in talk.brain.summaries for said in it.texts)
        assert done["checkpoint"] == {"covered": len(given) - 2}
        assert "src/module_1.py" in done["messages"][1]["content"].partition("<notes>")[2]


@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_whoever_asks_for_it_gets_it_in_every_mode(mode: str) -> None:
    async with talking(model(), mode=mode) as talk:
        done = await compacted(talk, small_chat())

    assert done["messages_compacted"] > 0
