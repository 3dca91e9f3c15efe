"""`/compact` in the conversation: the proxy answers itself, and later requests have the summary."""

import asyncio
import json
from typing import Any

import pytest
from openai import AsyncOpenAI

from chat_proxy.compaction.summary.commands import COMPLETE, FAILED
from chat_proxy.compaction.summary.fold_text import TITLE
from chat_proxy.proxy.manual import compact as manual
from chat_proxy.proxy.manual.command_reply import NOTHING_LOST
from tests.journeys.manual.hands import (
    SHORT,
    WISH,
    command,
    going_on,
    model,
    sdk,
    sent,
    small_chat,
)
from tests.journeys.summaries.talking import body_of, label, long_chat, post, talking, turns
from tests.support.fake_model import Line
from tests.support.figures import figure_in
from tests.support.live import eventually
from tests.support.summary_model import Question, after, answer, failing, good, in_turn, once_open
from tests.unit.chat.shapes import Fields, calls, result, says, text, user

pytestmark = pytest.mark.anyio

ONE = "authorization: Bearer one"


async def stream(client: AsyncOpenAI, messages: list[Fields], **more: Any) -> list[Any]:
    """Say a command, and return the chunks of the answer."""
    asked: Any = messages
    chunks = await client.chat.completions.create(model="fake", messages=asked, stream=True, **more)
    return [chunk async for chunk in chunks]


def words(messages: list[Fields]) -> str:
    """Return all that stands in some messages."""
    return json.dumps(messages, ensure_ascii=False)


@pytest.mark.parametrize("said", ["/compact", f"/compact {WISH}", [text("/compact")]])
async def test_it_is_answered_by_the_proxy_itself(said: Any) -> None:
    given = small_chat()
    async with talking(model()) as talk, sdk(talk) as client:
        answered, done = await command(client, given, said)

    first, _, rest = answered.partition("\n")
    assert first == COMPLETE == "Compact Complete!"
    assert f"{len(given) - 3} messages compacted, " in rest
    assert " → " in rest
    assert "## Goal" in rest
    assert done == "built"
    assert talk.brain.chats == []
    assert (WISH in talk.brain.summaries[0].texts[-1]) == (WISH in said)


@pytest.mark.parametrize("said", ["/compact", f"/compact {WISH}"])
async def test_the_next_turn_has_the_summary_and_not_what_was_compacted(said: str) -> None:
    """The upstream's prompt, through the SDK."""
    given = small_chat()
    async with talking(model(), ONE) as talk, sdk(talk) as client:
        answered, _ = await command(client, given, said)
        asked = await talk.ask(going_on(given, said, answered))

        prompt = sent(talk)
        assert label(asked) == "reused"
        assert prompt[1]["content"].startswith(TITLE)
        assert prompt[3:] == [*given[-2:], user("And now?")]
        assert given[2]["content"] not in words(prompt)
        assert len(talk.brain.summaries) == 1


async def test_a_conversation_over_the_trigger_is_compacted_once_only() -> None:
    given = long_chat(14)[:-1]
    async with talking(model(), ONE) as talk, sdk(talk) as client:
        answered, _ = await command(client, given)
        asked = await talk.ask(going_on(given, "/compact", answered))

    assert label(asked) == "reused"
    assert len(talk.brain.summaries) == 1


async def test_the_conversation_goes_on_with_a_stable_prefix() -> None:
    given = small_chat()
    async with talking(model(), ONE) as talk, sdk(talk) as client:
        answered, _ = await command(client, given)
        grown = going_on(given, "/compact", answered)
        for number in range(3):
            await talk.ask(grown)
            grown = [*grown, says("Well."), user(f"And number {number}?")]

    assert talk.broken() == []


async def test_a_stream_has_role_content_end_and_no_usage_unless_asked() -> None:
    given = [*small_chat(), user("/compact")]
    async with talking(model()) as talk, sdk(talk) as client:
        chunks = await stream(client, given)

    first, said, last = chunks
    assert first.choices[0].delta.role == "assistant"
    assert said.choices[0].delta.content.startswith(COMPLETE)
    assert last.choices[0].finish_reason == "stop"
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks)


async def test_a_stream_tells_its_usage_when_asked() -> None:
    """No model wrote the answer: it has used nothing."""
    given = [*small_chat(), user("/compact")]
    async with talking(model()) as talk, sdk(talk) as client:
        *_, last = await stream(client, given, stream_options={"include_usage": True})

    assert last.choices == []
    assert last.usage.total_tokens == last.usage.prompt_tokens == 0


async def test_on_the_wire_a_stream_ends_with_done() -> None:
    body = body_of([*small_chat(), user("/compact")], stream=True)
    async with talking(model()) as talk:
        answered = await post(talk.line, body)

    assert answered.headers["content-type"].startswith("text/event-stream")
    assert answered.body.endswith(b"\n\ndata: [DONE]\n\n")
    assert label(answered) == "built"
    assert int(answered.headers["x-chat-proxy-tokens-after"]) < int(
        answered.headers["x-chat-proxy-tokens-before"]
    )


async def test_a_stream_that_waits_gets_signs_of_life() -> None:
    body = body_of([*small_chat(), user("/compact")], stream=True)
    async with talking(model(after(0.3)), summary={"keep_alive_seconds": 0.1}) as talk:
        answered = await post(talk.line, body)

    assert answered.body.startswith(b": compacting\n\n")
    assert COMPLETE.encode() in answered.body
    assert answered.body.endswith(b"data: [DONE]\n\n")


async def test_the_whole_answer_has_honest_usage() -> None:
    async with talking(model()) as talk:
        answered = await post(talk.line, body_of([*small_chat(), user("/compact")]))

    document = json.loads(answered.body)
    assert document["object"] == "chat.completion"
    assert document["model"] == "fake"
    assert document["usage"] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


@pytest.mark.parametrize("given", [[], small_chat(1), [user("Hi"), says("Hello.")]])
async def test_a_single_turn_gets_a_friendly_answer(given: list[Fields]) -> None:
    async with talking(model()) as talk, sdk(talk) as client:
        answered, done = await command(client, given)

    assert answered == manual.NOTHING_TO_FOLD
    assert done == "none"
    assert talk.brain.summaries == []


@pytest.mark.parametrize("streams", [False, True])
async def test_a_failing_summary_model_gets_a_clear_answer_and_nothing_is_lost(
    *, streams: bool
) -> None:
    given = small_chat()
    async with talking(model(failing(500)), ONE) as talk:
        body = body_of([*given, user("/compact")], stream=streams)
        answered = await post(talk.line, body, ONE)
        asked = await talk.ask(going_on(given, "/compact", "It failed."))

        assert answered.status == 200
        assert label(answered) == "failed-open"
        for sentence in (FAILED, "cannot be reached", NOTHING_LOST):
            assert sentence.encode() in answered.body
        assert asked.upstream == asked.body


async def test_said_again_after_a_failure_it_keeps_the_last_turn_of_the_talk() -> None:
    """The command and its answer are no turn."""
    given = small_chat()
    async with talking(model(in_turn(failing(500), good)), ONE) as talk, sdk(talk) as client:
        failed, _ = await command(client, given)
        more = [*given, user("/compact"), says(failed)]
        answered, done = await command(client, more)
        await talk.ask(going_on(more, "/compact", answered))

        assert done == "built"
        assert sent(talk)[3:5] == given[-2:]


async def test_said_twice_it_is_done_once() -> None:
    given = small_chat()
    async with talking(model()) as talk, sdk(talk) as client:
        first, _ = await command(client, given)
        second, done = await command(client, [*given, user("/compact"), says(first)])

    assert second == first
    assert done == "reused"
    assert len(talk.brain.summaries) == 1


async def test_a_second_compaction_takes_up_the_first() -> None:
    given = small_chat()

    async def brief(question: Question, line: Line) -> None:
        await answer(question, line, SHORT)

    async with talking(model(brief), ONE) as talk, sdk(talk) as client:
        answered, _ = await command(client, given)
        more = [*going_on(given, "/compact", answered), says("Well."), *turns(3, 240, first=40)]
        again, done = await command(client, more)
        await talk.ask(going_on(more, "/compact", again))

        assert done == "built"
        assert sent(talk)[3:5] == more[-2:]
        assert sum(message["content"].startswith(TITLE) for message in sent(talk)) == 1


async def test_a_turn_with_calls_before_it_stays_whole() -> None:
    steps = [user("Look."), calls("a"), result("a", "sunny"), says("Sunny.")]
    given = [*small_chat(), *steps]
    async with talking(model(), ONE) as talk, sdk(talk) as client:
        answered, _ = await command(client, given)
        await talk.ask(going_on(given, "/compact", answered))

        assert sent(talk)[3:7] == steps


@pytest.mark.parametrize(
    "said",
    [
        "/compacted",
        "/compact",
        "please /compact",
        "What does /compact do?",
        "/Compact",
        [text("/compact"), text("now")],
    ],
)
async def test_anything_else_goes_to_the_model(said: Any) -> None:
    """`/compact` itself too, where commands are switched off."""
    commands = {"enabled": said != "/compact"}
    async with talking(model(), ONE, commands=commands) as talk:
        asked = await talk.ask([*small_chat(), user(said)])

    assert asked.upstream == asked.body
    assert talk.brain.summaries == []


@pytest.mark.parametrize("mode", ["off", "observe"])
async def test_in_a_lower_mode_it_goes_to_the_model(mode: str) -> None:
    async with talking(model()) as talk:
        asked = await talk.ask([*small_chat(), user("/compact")], f"x-chat-proxy-mode: {mode}")

    assert asked.upstream == asked.body
    assert talk.brain.summaries == []


async def test_a_client_that_leaves_finds_the_summary_when_it_comes_again() -> None:
    gate = asyncio.Event()
    given = small_chat()
    async with talking(model(once_open(gate)), ONE) as talk:
        body = body_of([*given, user("/compact")])
        waiting = asyncio.create_task(post(talk.line, body, ONE))
        await eventually(lambda: talk.brain.summaries)
        talk.line.leave()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        gate.set()
        async with sdk(talk) as client:
            answered, done = await command(client, given)

    assert answered.startswith(COMPLETE)
    assert done == "built"
    assert len(talk.brain.summaries) == 1


async def test_over_the_wire_a_metric_counts_it_as_a_compaction() -> None:
    async with talking(model()) as talk, sdk(talk) as client:
        await command(client, small_chat())
        figures = talk.proxy.services.metrics.render().decode()

    outcome = 'chat_proxy_compactions_total{mode="on",outcome="built",wire="chat"}'
    assert figure_in(figures, outcome) == 1
