"""One request over the trigger, on a proxy that has never seen its conversation."""

from itertools import pairwise

import pytest

from chat_proxy.compaction.summary.fold import ACKNOWLEDGEMENT
from chat_proxy.compaction.summary.fold_text import TITLE
from tests.journeys.summaries.talking import (
    SYSTEM,
    TRIGGER,
    WINDOW,
    body_of,
    label,
    long_chat,
    post,
    talking,
    turns,
)
from tests.journeys.trimming.growing import Asked
from tests.support.fake_model import fake_model
from tests.support.strict_template import complaints
from tests.support.summary_model import SummaryModel, failing
from tests.unit.chat.shapes import Fields, says, system, user

pytestmark = pytest.mark.anyio

CLIENT_KEY = "authorization: Bearer client-key-1"


def folded_of(asked: Asked) -> Fields:
    """Return the message with the summary, which stands behind the instructions."""
    return next(message for message in asked.messages if message["role"] != "system")


async def test_a_request_over_the_trigger_is_folded_before_it_is_sent() -> None:
    """BUGS 27: the summary model is asked, once, and the header says so."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        asked = await talk.ask(long_chat())

    before, after = asked.tokens
    assert label(asked) == "built"
    assert asked.stages == ["summary"]
    assert len(brain.summaries) == len(brain.chats) == 1
    assert before >= TRIGGER
    assert after <= TRIGGER * 0.5
    assert TITLE in folded_of(asked)["content"]


async def test_what_is_folded_keeps_its_instructions_its_tail_and_its_last_word() -> None:
    """The system message and the newest turns are the client's own, byte for byte."""
    given = long_chat()
    async with talking(SummaryModel(window=WINDOW)) as talk:
        asked = await talk.ask(given)

    head, _, acknowledgement, *tail = asked.messages
    assert head == SYSTEM
    assert acknowledgement == says(ACKNOWLEDGEMENT)
    assert len(tail) >= 3
    assert tail == given[-len(tail) :]


async def test_the_summary_is_a_users_word_and_alternation_holds() -> None:
    """BUGS 3, 4, 5, 6: no late system, no two of a kind in a row, no assistant who sums up."""
    async with talking(SummaryModel(window=WINDOW)) as talk:
        asked = await talk.ask(long_chat())

    roles = [message["role"] for message in asked.messages]
    assert roles[:3] == ["system", "user", "assistant"]
    assert all(one != other for one, other in pairwise(roles))
    assert complaints(asked.messages) == []


async def test_a_request_below_the_trigger_asks_nobody_for_a_summary() -> None:
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        asked = await talk.ask(long_chat(11))

    assert label(asked) == "none"
    assert asked.upstream == asked.body
    assert brain.summaries == []


async def test_a_request_without_instructions_begins_with_the_summary() -> None:
    """BUGS 5: what is left has a user's message in it."""
    async with talking(SummaryModel(window=WINDOW)) as talk:
        asked = await talk.ask([*turns(14), user("And now?")])

    assert asked.messages[0]["role"] == "user"
    assert TITLE in asked.messages[0]["content"]
    assert complaints(asked.messages) == []


async def test_a_model_of_its_own_at_a_server_of_its_own_writes_the_summary() -> None:
    """Its key arrives there and the client's does not; the main server writes none."""
    main, other = SummaryModel(window=WINDOW), SummaryModel(window=32_000, names=("small",))
    async with fake_model(other) as second:
        summary = {"model": "small", "base_url": second.url, "api_key": "summary-key"}
        async with talking(main, CLIENT_KEY, summary=summary) as talk:
            asked = await talk.ask(long_chat())

    (question,) = other.summaries
    assert label(asked) == "built"
    assert main.summaries == []
    assert question.fields["model"] == "small"
    assert question.received.header("authorization") == "Bearer summary-key"
    assert main.chats[0].received.header("authorization") == "Bearer client-key-1"
    assert all(b"client-key-1" not in str(it).encode() for it in second.requests)


async def test_another_server_without_a_key_is_sent_none() -> None:
    """A client's key never goes to a server that the client did not ask for."""
    main, other = SummaryModel(window=WINDOW), SummaryModel(window=32_000, names=("small",))
    async with fake_model(other) as second:
        summary = {"model": "small", "base_url": second.url}
        async with talking(main, CLIENT_KEY, summary=summary) as talk:
            asked = await talk.ask(long_chat())

    assert label(asked) == "built"
    assert len(other.summaries) == 1
    assert [it.header("authorization") for it in second.requests] == [None] * len(second.requests)


async def test_the_own_server_is_asked_with_the_clients_own_key() -> None:
    brain = SummaryModel(window=WINDOW)
    async with talking(brain, CLIENT_KEY) as talk:
        await talk.ask(long_chat())

    assert brain.summaries[0].received.header("authorization") == "Bearer client-key-1"


async def test_a_key_for_summaries_is_used_at_the_own_server_too() -> None:
    """SUMMARY_API_KEY alone: the client's key pays for its answers, the other for summaries."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain, CLIENT_KEY, summary={"api_key": "summary-key"}) as talk:
        await talk.ask(long_chat())

    assert brain.summaries[0].received.header("authorization") == "Bearer summary-key"
    assert brain.chats[0].received.header("authorization") == "Bearer client-key-1"


async def test_another_model_at_the_own_server_is_asked_with_the_clients_own_key() -> None:
    brain = SummaryModel(window=WINDOW, names=("fake", "small"))
    async with talking(brain, CLIENT_KEY, summary={"model": "small"}) as talk:
        await talk.ask(long_chat())

    assert brain.summaries[0].fields["model"] == "small"
    assert brain.summaries[0].received.header("authorization") == "Bearer client-key-1"


async def test_where_the_summary_server_fails_the_requests_own_model_writes_it() -> None:
    main = SummaryModel(window=WINDOW)
    other = SummaryModel(failing(500), window=32_000, names=("small",))
    async with fake_model(other) as second:
        summary = {"model": "small", "base_url": second.url}
        async with talking(main, summary=summary) as talk:
            asked = await talk.ask(long_chat())

    assert label(asked) == "built"
    assert len(main.summaries) == len(other.summaries) == 1


async def test_a_maximum_as_large_as_the_window_does_not_compact_every_request() -> None:
    """BUGS 8: the reserve for an answer is never more than a quarter of the window."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        talk.fields["max_tokens"] = WINDOW
        sent = [await talk.ask([*turns(count), user("Go on")]) for count in range(1, 21)]

    assert [label(it) for it in sent].count("built") <= 2
    assert {(label(it), *it.stages) for it in sent[:8]} == {("trimmed", "clip_output")}
    assert brain.overflows == []


async def test_a_maximum_that_does_not_fit_beside_its_prompt_is_lowered_before_it_is_sent() -> None:
    """What is known to be refused is not sent; what is left of the window is the answer's."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        talk.fields["max_tokens"] = WINDOW
        await talk.ask([*turns(6), user("Go on")])
        talk.fields["max_tokens"] = 500
        small = await talk.ask([*turns(6), user("Go on")])

    large, _ = brain.chats
    assert WINDOW * 0.9 < large.tokens + large.max_tokens <= WINDOW
    assert small.upstream == small.body


async def test_a_system_prompt_over_the_trigger_is_served_and_never_looped_on() -> None:
    """BUGS 7: where a summary can win nothing, none is asked for."""
    brain = SummaryModel(window=WINDOW)
    given = [system("Rule after rule. " * 1_300), user("Hi")]
    async with talking(brain) as talk:
        for _ in range(3):
            asked = await talk.ask(given)
            assert asked.upstream == asked.body

    assert brain.summaries == []


async def test_a_streaming_client_gets_its_stream_and_is_told_of_the_summary() -> None:
    async with talking(SummaryModel(window=WINDOW)) as talk:
        talk.fields["stream"] = True
        answered = await post(talk.line, body_of(long_chat(), stream=True))

    assert (answered.status, label(answered)) == (200, "built")
    assert answered.headers["content-type"].startswith("text/event-stream")
    assert answered.body.endswith(b"data: [DONE]\n\n")


async def test_the_newest_turn_stays_whole_behind_the_fold() -> None:
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        asked = await talk.ask(long_chat(20))

    assert asked.messages[3:] == long_chat(20)[-len(asked.messages[3:]) :]
    assert len(asked.messages[3:]) >= 3
    assert asked.tokens[1] <= TRIGGER * 0.5


async def test_a_conversation_of_ten_windows_is_answered_all_the_same() -> None:
    """Where no model can read it all at once, its prompt still fits."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        asked = await talk.ask(long_chat(170))

    assert asked.tokens[0] > 9 * WINDOW
    assert brain.overflows == []
    assert complaints(asked.messages) == []
    assert asked.messages[-1] == user("And now?")
