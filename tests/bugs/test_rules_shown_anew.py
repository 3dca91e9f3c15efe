"""Rules that their own suites name but show from one side only: here is the other side."""

import asyncio
import json
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.chat.message import Message
from chat_proxy.compaction.summary.prompt import TALK_INSTRUCTION
from chat_proxy.tokens.tiktoken_counter import load_encoding
from tests.journeys.summaries.in_process import open_house
from tests.journeys.summaries.talking import TRIGGER, WINDOW, label, long_chat, prose, talking
from tests.journeys.trimming.growing import has_whole_pairs, output, step
from tests.support.fake_model import (
    COMPLETION,
    DONE,
    Behaviour,
    Line,
    Received,
    answer_json,
    begin_stream,
    delta,
    event,
    fake_model,
    on_chat,
)
from tests.support.live import RawAnswer, chat_body, chat_request, raw_client, running_proxy
from tests.support.summary_model import (
    Question,
    SummaryModel,
    answer,
    chosen,
    empty,
    good,
    in_turn,
    tokenizer,
    written,
)
from tests.unit.chat.shapes import Fields, says, system, user

pytestmark = pytest.mark.anyio

TASK = user("Find out why tests/test_login.py fails, and fix it.")


def words(messages: list[Fields]) -> Iterator[str]:
    """Yield all that is said in messages, thoughts and calls too."""
    for message in messages:
        yield from (text for _, text in Message(message).pieces())


def tokens_of(texts: Iterable[str]) -> int:
    return sum(map(tokenizer().count, texts))


def thoughtful_run(steps: int) -> list[Fields]:
    """Return a run of one turn in which four tokens of five are thoughts."""
    messages = [system("You are an agent."), TASK]
    for number in range(steps):
        caller, *results = step(str(number), output(40, number))
        thoughts = prose(300, f"step {number}")
        messages += [{**caller, "reasoning_content": thoughts}, *results]
    return messages


async def test_a_run_that_is_mostly_thoughts_is_folded_with_its_thoughts() -> None:
    """BUGS 20: reasoning is no part that must stay; only the newest steps keep theirs."""
    given = thoughtful_run(20)
    thoughts = [it["reasoning_content"] for it in given if "reasoning_content" in it]
    assert tokens_of(thoughts) > 0.75 * tokens_of(words(given))
    async with talking(SummaryModel(window=WINDOW)) as talk:
        asked = await talk.ask(given)

    before, after = asked.tokens
    assert before > TRIGGER
    assert label(asked) == "built"
    assert after <= 0.75 * TRIGGER
    assert TASK in asked.messages
    assert has_whole_pairs(asked.messages)
    callers = [message for message in asked.messages if message.get("tool_calls")]
    assert [it["reasoning_content"] for it in callers] == thoughts[-len(callers) :]


async def impatient(question: Question, line: Line) -> None:
    """Answer as a gateway that waits for no silent answer, and pass a stream on word by word."""
    if not question.fields.get("stream"):
        await answer_json(line, {"error": {"message": "Gateway Time-out"}}, 504)
        return
    await begin_stream(line)
    for word in written(chosen(question)).splitlines(keepends=True):
        choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
        await line.chunk(event({"choices": [choice]}))
        await asyncio.sleep(0)
    await line.chunk(event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    await line.chunk(DONE)
    await line.chunk(b"")


async def test_a_summary_comes_through_a_gateway_without_patience() -> None:
    """BUGS 35: what is asked for as a stream is never silent for long."""
    brain = SummaryModel(impatient, window=WINDOW)
    async with talking(brain) as talk:
        asked = await talk.ask(long_chat())

    assert label(asked) == "built"
    assert len(brain.summaries) == 1


def test_an_answer_has_no_more_room_than_its_question_leaves() -> None:
    """BUGS 11: the longer the conversation, the shorter its summary must be, in the end."""
    rooms = []
    with open_house() as house:
        for tokens in range(400, 460, 10):
            with house.desk(WINDOW) as desk:
                desk.ask(long_chat(14, tokens))
            for fields in desk.writer.asked:
                question = Question(Received("POST", "", [], json.dumps(fields).encode()), 1.0)
                assert question.tokens + question.max_tokens < WINDOW
            if len(desk.writer.asked) == 1:
                rooms.append(question.max_tokens)

    longest = 875
    assert max(rooms) == longest
    assert min(rooms) < longest


async def test_a_summary_of_less_than_was_asked_for_claims_no_more() -> None:
    """BUGS 48: after an empty answer half is asked for; the newer half stays in the prompt."""
    given = long_chat()
    brain = SummaryModel(in_turn(empty, good), window=WINDOW)
    async with talking(brain) as talk:
        asked = await talk.ask(given)

    first, second = ("\n".join(question.texts) for question in brain.summaries)
    left_out = [it for it in given[1:-1] if it["content"] in first and it["content"] not in second]
    assert label(asked) == "built"
    assert len(left_out) > 4
    assert all(message in asked.messages for message in left_out)


def chinese_chat(turns: int) -> list[Fields]:
    """Return a conversation in Chinese of about 270 tokens a turn."""
    told = "今天的会议改到下午三点半举行,请把第%d号文件交给财务部的同事,并确认所有数字都正确。"
    talk = (
        message
        for number in range(turns)
        for message in (user(told % number), says(told % (number + 500) * 6))
    )
    return [system("你是助手。"), *talk, user("那么现在呢?")]


CHINESE = [f"会议改到下午三点半, 财务部的同事负责第{number}号文件" for number in range(8)]


async def chinese(question: Question, line: Line) -> None:
    """Write a summary in the conversation's own language."""
    await answer(question, line, written(CHINESE))


async def test_a_chinese_chat_is_counted_for_what_it_is() -> None:
    """BUGS 18: by characters divided by four it would be far below the trigger."""
    given = chinese_chat(24)
    chars = sum(len(message["content"]) for message in given)
    async with talking(SummaryModel(chinese, window=WINDOW)) as talk:
        asked = await talk.ask(given)

    before, _ = asked.tokens
    assert chars / 4 < 0.5 * TRIGGER
    assert tokens_of(words(given)) < before < 1.3 * tokens_of(words(given))
    assert label(asked) == "built"


async def test_a_summary_stays_in_the_language_it_was_written_in() -> None:
    """BUGS 29: it is asked for in every question, and English headings are all that is needed."""
    brain = SummaryModel(chinese, window=WINDOW)
    async with talking(brain) as talk:
        asked = await talk.ask(chinese_chat(24))

    (question,) = brain.summaries
    assert "in the language of the conversation" in TALK_INSTRUCTION
    assert TALK_INSTRUCTION in question.texts[-1]
    assert "\n".join(f"- {line}" for line in CHINESE) in asked.messages[1]["content"]


async def test_no_note_sends_a_model_to_a_tool_that_is_not_there() -> None:
    """BUGS 37, FAULTS C19: neither cut nor folded text asks for a call, and no tool is added."""
    tool = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
    given = [*long_chat(), *step("big", output(9_000))]
    async with talking(SummaryModel(window=WINDOW), tools={"max_bytes": 2_000}) as talk:
        talk.fields["tools"] = [tool]
        asked = await talk.ask(given)

    ours = [message["content"] for message in asked.messages if message not in given]
    assert asked.stages == ["truncate_tool_output", "summary"]
    assert json.loads(asked.upstream)["tools"] == [tool]
    assert len(ours) == 3
    for text in ours:
        assert not any(verb in text.lower() for verb in ("retrieve", "recall", "call the tool"))


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_counting_asks_nobody_for_its_tables(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BUGS 47: no address is looked up, and none is connected to."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("somebody went online")

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)

    assert len(load_encoding(name).encode_ordinary("Hello, world.")) == 4
    assert list(tmp_path.iterdir()) == []


async def sets_cookies(_: Received, line: Line) -> None:
    await answer_json(line, COMPLETION, 200, "set-cookie: session=of-a; Path=/")


async def test_an_upstream_with_a_name_leaves_no_cookie_behind_either() -> None:
    """BUGS 50: the default jar of aiohttp keeps none of an address, and all of a name."""
    async with fake_model(on_chat(sets_cookies)) as model:
        named = model.url.replace("127.0.0.1", "localhost")
        async with running_proxy(named) as proxy, raw_client(proxy) as client:
            for tenant in ("a", "b"):
                await client.send(chat_request(chat_body(), f"authorization: Bearer {tenant}"))
                assert (await client.answer()).status == 200

    chats = [request for request in model.requests if request.method == "POST"]
    assert [chat.header("cookie") for chat in chats] == [None, None]


async def breaks_off(_: Received, line: Line) -> None:
    await begin_stream(line)
    await line.chunk(delta("word "))
    line.writer.close()


async def test_a_stream_that_breaks_off_ends_with_an_error() -> None:
    """FAULTS B8: whoever reads to the end knows that it is none."""
    answered = await asked_once(breaks_off, stream=True)

    events = answered.body.removesuffix(b"\n\n").split(b"\n\n")
    assert len(events) == 3
    word, told, done = events
    assert word + b"\n\n" == delta("word ")
    assert json.loads(told.removeprefix(b"data: "))["error"]["code"] == "upstream_reset"
    assert done + b"\n\n" == DONE


@pytest.mark.parametrize("status", [302, 307])
async def test_a_redirect_takes_nothing_elsewhere(status: int) -> None:
    """FAULTS B25: whoever it points to gets neither the key nor the conversation."""

    async def welcome(_: Received, line: Line) -> None:
        await answer_json(line, COMPLETION)

    async with fake_model(welcome) as elsewhere:

        async def point(_: Received, line: Line) -> None:
            location = f"location: {elsewhere.url}/chat/completions"
            await answer_json(line, {}, status, location)

        answered = await asked_once(point)

    assert elsewhere.requests == []
    assert (answered.status, answered.error["code"]) == (502, "upstream_redirect")


async def asked_once(behaviour: Behaviour, **fields: Any) -> RawAnswer:
    """Ask a model that behaves so, once."""
    async with (
        fake_model(on_chat(behaviour)) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request(chat_body(**fields), "authorization: Bearer canary"))
        return await client.answer()
