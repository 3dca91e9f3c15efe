"""Rows A4, A6, A14 to A16 and A24: what is odd, but the upstream's to judge."""

import json
from typing import Any

import pytest

from tests.faults.client.conftest import Desk
from tests.journeys.summaries.talking import SYSTEM, body_of, label, post, talking, turns
from tests.support.live import chat_body, chat_request
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import Fields, calls, result, user

pytestmark = pytest.mark.anyio

SKIPPED = 'chat_proxy_compaction_skipped_total{reason="shape"}'
REPAIRED = 'chat_proxy_input_repaired_total{kind="surrogate"}'
HALF_AN_EMOJI = "cut \ud83d"
THIRTY_DIGITS = 123456789012345678901234567890


async def sent_as_it_came(ask: Desk, **fields: Any) -> bool:
    """Tell whether the upstream got these very bytes, and the client its answer."""
    body = json.dumps(fields, indent=1).encode()
    answer, received = await ask(chat_request(body))
    return answer.status == 200 and [r.body for r in received] == [body]


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [user(HALF_AN_EMOJI)]},
        {"messages": [user("Hi")], "user": "\udc00"},
        {"model": HALF_AN_EMOJI, "messages": []},
    ],
    ids=["content", "field", "model"],
)
async def test_a4_half_an_emoji_is_forwarded_as_it_came(fields: Fields, ask: Desk) -> None:
    before = ask.figure(REPAIRED)

    assert await sent_as_it_came(ask, **fields)
    assert ask.figure(REPAIRED) == before + 1


async def test_a4_half_an_emoji_does_not_stand_in_the_way_of_a_summary() -> None:
    chat = [SYSTEM, user(HALF_AN_EMOJI), *turns(14), user(f"And now? {HALF_AN_EMOJI}")]
    async with talking(SummaryModel()) as talk:
        answer = await post(talk.line, json.dumps({"model": "fake", "messages": chat}).encode())
        sent = talk.brain.chats[-1]

    assert (answer.status, label(answer)) == (200, "built")
    assert sent.messages[-1] == chat[-1]
    assert "cut \ufffd" in sent.messages[1]["content"]
    assert b"\\ud83d" not in sent.received.body.rpartition(b"And now?")[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"seed": 2**64, "messages": []},
        {"metadata": {"row": THIRTY_DIGITS}, "messages": []},
        {"tools": [{"function": {"parameters": {"maximum": -THIRTY_DIGITS}}}], "messages": []},
        {"messages": [{"role": "user", "content": "Hi", "row": THIRTY_DIGITS}]},
    ],
    ids=["seed", "metadata", "tools", "message"],
)
async def test_a6_long_numbers_keep_every_digit(fields: Fields, ask: Desk) -> None:
    assert await sent_as_it_came(ask, **fields)


async def test_a6_a16_fields_survive_when_the_history_is_compacted() -> None:
    extras: Fields = {
        "seed": THIRTY_DIGITS,
        "guided_json": {"type": "object"},
        "vendor": {"a": [1, None, {"b": 1.0}]},
        "metadata": {"row": 2**64},
    }
    async with talking(SummaryModel()) as talk:
        talk.fields = extras
        asked = await talk.ask([SYSTEM, *turns(14), {**user("And now?"), "row": THIRTY_DIGITS}])
        sent = talk.brain.chats[-1]

    assert label(asked) == "built"
    assert {name: sent.fields[name] for name in extras} == extras
    assert sent.messages[-1] == {**user("And now?"), "row": THIRTY_DIGITS}
    assert str(THIRTY_DIGITS).encode() in sent.received.body


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"model": "fake"},
        {"messages": None},
        {"messages": "text"},
        {"messages": {"role": "user"}},
        {"messages": ["text", None]},
    ],
    ids=["nothing", "none", "null", "text", "object", "of texts"],
)
async def test_a14_without_a_list_of_messages_nothing_is_compacted(
    fields: Fields, ask: Desk
) -> None:
    before = ask.figure(SKIPPED)

    assert await sent_as_it_came(ask, **fields)
    assert ask.figure(SKIPPED) == before + 1


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [SYSTEM],
        [{}],
        [user(None), {"role": "x", "content": 7}],
        [user({"type": "text"}), {"role": 5, "content": None}],
        [user([{"type": "new", "x": {}}, "bare", None, 3])],
        [{"role": "assistant", "tool_calls": "none"}, {"role": "tool"}],
    ],
    ids=["empty", "system", "bare", "null", "object", "parts", "calls"],
)
async def test_a14_messages_of_unknown_shape_pass(messages: list[Fields], ask: Desk) -> None:
    assert await sent_as_it_came(ask, messages=messages)


ODD_CALLS = {
    "a result without a call": [result("lost")],
    "a call without a result": [calls("1"), user("Never mind.")],
    "one id twice": [calls("1", "1"), result("1"), result("1")],
    "one id in two groups": [calls("1"), result("1"), calls("1"), result("1")],
    "parallel calls, one answered": [calls("1", "2"), result("2"), user("And 1?")],
    "parallel calls split by a user": [calls("1", "2"), result("1"), user("Go on"), result("2")],
}


def unpaired(messages: list[Fields]) -> set[str]:
    """Return what stands alone: calls without their result behind them, and the other way round."""
    found: set[str] = set()
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            name = message["tool_call_id"]
            found |= {f"result {name}"} if name not in waiting else set()
            waiting.discard(name)
        else:
            found |= {f"call {name}" for name in waiting}
            waiting = {call["id"] for call in message.get("tool_calls") or ()}
    return found | {f"call {name}" for name in waiting}


@pytest.mark.parametrize("odd", ODD_CALLS.values(), ids=ODD_CALLS)
async def test_a15_odd_calls_are_forwarded_as_they_came(odd: list[Fields], ask: Desk) -> None:
    assert await sent_as_it_came(ask, messages=[user("Hi"), *odd])


@pytest.mark.parametrize("place", [10, 24, 28])
async def test_a15_no_compaction_leaves_anything_alone_that_was_not(place: int) -> None:
    """In the span, at the cut and in the tail: calls of each kind, and some that are whole."""
    whole = [calls("8", "9"), result("9"), result("8")]
    async with talking(SummaryModel()) as talk:
        for odd in ODD_CALLS.values():
            chat = turns(14)
            chat[place:place] = [*whole, *odd, user("Well?")]
            asked = await talk.ask([SYSTEM, *chat, user("And now?")])
            sent = talk.brain.chats[-1].messages

            assert label(asked) in ("built", "reused")
            assert unpaired(sent) <= unpaired(chat)


async def test_a16_unknown_fields_are_kept_as_they_are(ask: Desk) -> None:
    fields = {"vendor": {"a": [1, 2.0]}, "chat_template_kwargs": {"x": True}, "$": None}
    message = {**user("Hi"), "name": "x", "cache_control": {"type": "ephemeral"}, "new": []}

    assert await sent_as_it_came(ask, messages=[message], **fields)


@pytest.mark.parametrize("choices", [17, 10**9, 1e300, 10**30])
async def test_a24_more_choices_than_allowed_are_refused(choices: float, ask: Desk) -> None:
    answer, received = await ask(chat_request(chat_body(n=choices)))

    assert answer.status == 400
    assert (answer.error["code"], answer.error["param"]) == ("invalid_value", "n")
    assert received == []


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": -1},
        {"max_tokens": "many"},
        {"temperature": "hot"},
        {"stream": "yes"},
        {"stream": 1},
        {"n": "many"},
        {"n": -1},
    ],
    ids=str,
)
async def test_a24_other_values_are_the_upstreams_to_judge(fields: Fields, ask: Desk) -> None:
    assert await sent_as_it_came(ask, messages=[user("Hi")], **fields)


async def test_a24_absurd_limits_do_not_stand_in_the_way_of_a_compaction() -> None:
    chat = [SYSTEM, *turns(14), user("And now?")]
    async with talking(SummaryModel()) as talk:
        for absurd in (-1, "many", 10**30, None, 1e300):
            answer = await post(talk.line, body_of(chat, max_tokens=absurd))

            assert (answer.status, label(answer)) in ((200, "built"), (200, "reused"))
            assert talk.brain.chats[-1].fields["max_tokens"] == absurd
