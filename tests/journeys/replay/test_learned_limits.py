"""What an overflow taught: the next request fits at once, here, after a restart, and elsewhere."""

import asyncio
import json
from pathlib import Path

import pytest

from chat_proxy.cli.check_config import check_config
from chat_proxy.cli.explain import explain_file
from tests.journeys.replay.small_server import (
    Refusal,
    SmallServer,
    at_least,
    body_of,
    guest_of,
    is_answer,
    label_of,
    over,
    visiting,
    vllm,
)
from tests.journeys.summaries.talking import SYSTEM, long_chat, prose, turns
from tests.support.conversations import listening
from tests.support.fake_model import COMPLETION, Line, Received, answer_json, fake_model
from tests.support.live import eventually, settings
from tests.support.meeting import meeting
from tests.support.summary_model import Question
from tests.unit.chat.shapes import Fields, says, user

pytestmark = pytest.mark.anyio

WINDOW = 4_000
LEARNED = {"tokens": WINDOW, "source": "learned"}
BELIEVED = {"tokens": 100_000, "source": "setting"}


def chat(name: int) -> list[Fields]:
    """A conversation over the window that is like no other."""
    return [SYSTEM, *turns(14, first=100 * name), user("And now?")]


async def test_the_next_request_does_not_overflow_at_all() -> None:
    with listening() as heard:
        async with visiting(over(WINDOW)) as guest:
            await guest.tell(chat(1))
            answer = await guest.tell(chat(2))

    assert is_answer(answer)
    assert len(guest.server.refusals) == 1
    assert len(guest.calls) == 3
    assert label_of(answer) == "built"
    line = heard.lines("request")[-1]
    assert (line["window"], line["window_source"]) == (WINDOW, "learned")
    assert "replays" not in line


async def test_a_conversation_grows_on_without_another_overflow() -> None:
    """BUGS 12: from then on the trigger is far below the real window."""
    history = long_chat()
    async with visiting(over(WINDOW)) as guest:
        for number in range(8):
            answer = await guest.tell(history)
            assert is_answer(answer)
            history += [says("Well."), *turns(1, first=50 + number), user(f"Next {number}?")]

    assert len(guest.server.refusals) == 1
    assert max(guest.prompts[1:]) < WINDOW


async def test_explain_shows_what_was_learned_and_from_whom() -> None:
    async with visiting(over(WINDOW)) as guest:
        before = await guest.window()
        await guest.tell(chat(1))
        after = await guest.window()

    assert before == BELIEVED
    assert after == LEARNED


async def test_an_unknown_window_is_known_from_then_on() -> None:
    """BUGS 15."""
    async with visiting(over(WINDOW), window=None) as guest:
        before = await guest.window()
        await guest.tell(chat(1))
        after = await guest.window()
        await guest.tell(chat(2))

    assert (before, after) == (None, LEARNED)
    assert len(guest.server.refusals) == 1


async def test_other_models_know_nothing_of_it() -> None:
    async with visiting(over(WINDOW)) as guest:
        await guest.tell(chat(1))
        other = await guest.window("another")
        answer = await guest.tell(chat(2), model="another")

    assert other == BELIEVED
    assert is_answer(answer)
    assert len(guest.server.refusals) == 2


async def test_the_same_model_at_another_upstream_knows_nothing_of_it(tmp_path: Path) -> None:
    store = {"url": f"sqlite:///{tmp_path}/proxy.db"}
    small, large = SmallServer(refusing=over(WINDOW)), SmallServer()
    async with fake_model(small) as model, guest_of(small, model, store=store) as guest:
        await guest.tell(chat(1))
    async with fake_model(large) as model, guest_of(large, model, store=store) as guest:
        told = await guest.window()
        body = body_of(chat(1))
        await guest.send(body)

    assert told == BELIEVED
    assert guest.calls == [body]


async def test_other_tenants_share_the_limit_and_nothing_else() -> None:
    alice, bob = "authorization: Bearer sk-alice", "authorization: Bearer sk-bob"
    short = body_of([user("Hi")])
    async with visiting(over(WINDOW)) as guest:
        await guest.tell(chat(1), alice)
        hers = guest.server.summaries[-1].received
        answered = await guest.send(short, bob)
        same = await guest.tell(chat(1), bob)
        his = guest.server.summaries[-1].received

    assert is_answer(answered)
    assert guest.calls[2] == short
    assert label_of(same) == "built"
    assert hers.header("authorization") == "Bearer sk-alice"
    assert his.header("authorization") == "Bearer sk-bob"
    replayed = [question.received.header("authorization") for question in guest.server.chats[:2]]
    assert replayed == ["Bearer sk-alice", "Bearer sk-alice"]


async def test_it_is_known_after_a_restart_on_the_same_file(tmp_path: Path) -> None:
    store = {"url": f"sqlite:///{tmp_path}/proxy.db"}
    server = SmallServer(refusing=over(WINDOW))
    async with fake_model(server) as model:
        async with guest_of(server, model, store=store) as guest:
            await guest.tell(chat(1))
        async with guest_of(server, model, store=store) as guest:
            told = await guest.window()
            answer = await guest.tell(chat(2))

    assert told == LEARNED
    assert is_answer(answer)
    assert len(server.refusals) == 1


async def test_a_second_proxy_that_starts_later_knows_it_too(tmp_path: Path) -> None:
    store = {"url": f"sqlite:///{tmp_path}/proxy.db"}
    server = SmallServer(refusing=over(WINDOW))
    async with fake_model(server) as model, guest_of(server, model, store=store) as first:
        await first.tell(chat(1))
        await eventually(lambda: not first.proxy.services.sizing.learned_windows._unwritten)
        async with guest_of(server, model, store=store) as second:
            answer = await second.tell(chat(2))

    assert is_answer(answer)
    assert len(server.refusals) == 1


async def test_a_window_that_grew_is_believed_when_the_upstream_says_so() -> None:
    async with visiting(over(WINDOW)) as guest:
        await guest.tell(chat(1))
        guest.server.refusing = over(5_000)
        await guest.tell([user(prose(6_000, "it all"))])
        told = await guest.window()

    assert told == {"tokens": 5_000, "source": "learned"}


async def test_a_smaller_setting_stays() -> None:
    async with visiting(lambda _: Refusal(at_least(50_000)), window=8_000) as guest:
        await guest.tell(chat(1))
        told = await guest.window()

    assert told == {"tokens": 8_000, "source": "setting"}


async def test_a_limit_for_the_prompt_alone_is_not_taken_for_the_window() -> None:
    def judge(question: Question) -> Refusal | None:
        words = (
            f"Input tokens exceed the configured limit of {WINDOW} tokens. Your messages resulted "
            f"in {question.tokens} tokens. Please reduce the length of the messages."
        )
        too_long = question.tokens > WINDOW
        return Refusal(vllm(words, code="context_length_exceeded")) if too_long else None

    async with visiting(judge) as guest:
        first = await guest.tell(chat(1))
        told = await guest.window()
        second = await guest.tell(chat(2))

    assert is_answer(first)
    assert is_answer(second)
    assert told is not None
    assert (told["tokens"], told["source"]) == (BELIEVED["tokens"], BELIEVED["source"])
    assert told["input_limit"] == WINDOW
    assert len(guest.server.refusals) == 1


@pytest.mark.parametrize("limit", [0, 3, 63, 10**12])
async def test_a_limit_that_cannot_be_is_not_learned(limit: int) -> None:
    """BUGS 8."""
    async with visiting(lambda _: Refusal(at_least(limit))) as guest:
        await guest.tell(chat(1))
        told = await guest.window()

    assert told == BELIEVED


@pytest.mark.parametrize(("limit", "source"), [(5_000, "setting"), (5_001, "learned")])
async def test_a_limit_that_is_the_window_less_the_answer_is_not_believed(
    limit: int, source: str
) -> None:
    """One vLLM build calls that the maximum context length."""
    async with visiting(lambda _: Refusal(at_least(limit)), window=8_000) as guest:
        await guest.tell([user("Hi")], max_tokens=3_000)
        told = await guest.window()

    assert told is not None
    assert told["source"] == source


async def test_the_smallest_limit_that_is_believed_starves_nobody() -> None:
    """BUGS 8."""
    short = body_of([user("Hi")])
    async with visiting(lambda _: Refusal(at_least(64))) as guest:
        await guest.tell(chat(1))
        calls = len(guest.calls)
        guest.server.refusing = lambda _: None
        answer = await guest.send(short)
        longer = await guest.tell(chat(1))

    assert calls <= 3
    assert is_answer(answer)
    assert guest.calls[calls] == short
    assert is_answer(longer)


# What the commands show


async def test_the_explain_command_shows_a_learned_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = {"url": f"sqlite:///{tmp_path}/proxy.db"}
    server = SmallServer(refusing=over(WINDOW))
    file = tmp_path / "request.json"
    file.write_bytes(body_of([user("Hi")]))
    async with fake_model(server) as model:
        async with guest_of(server, model, store=store) as guest:
            await guest.tell(chat(1))
        chosen = settings(model.url, store=store)
        await asyncio.to_thread(explain_file, chosen, {}, str(file), as_json=False)

    assert f"window  {WINDOW:,} (learned)" in capsys.readouterr().out


async def test_check_config_shows_a_learned_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = {"url": f"sqlite:///{tmp_path}/proxy.db"}
    file = tmp_path / "registry.json"
    file.write_text(json.dumps([{"name": "fake"}, {"name": "other"}]))
    server = SmallServer(refusing=over(WINDOW))
    async with fake_model(server) as model:
        async with guest_of(server, model, store=store) as guest:
            await guest.tell(chat(1))
        chosen = settings(model.url, store=store, registry={"file": str(file)})
        code = await asyncio.to_thread(check_config, chosen, {}, probe=True)

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert f"model fake: learned from {model.url}: window {WINDOW}" in lines
    assert not any(line.startswith("model other: learned") for line in lines)


# Servers that cut prompts without a word


async def test_silent_truncation_is_logged_once_for_a_model() -> None:
    async def cut(received: Received, line: Line) -> None:
        usage = {"prompt_tokens": 900, "completion_tokens": 6, "total_tokens": 906}
        await answer_json(line, {**COMPLETION, "usage": usage})

    roomy = {"context_window": 100_000}
    with listening() as heard:
        async with meeting(cut, budget=roomy) as met:
            for number in range(3):
                await met.ask(messages=chat(number))
            await met.ask(messages=chat(1), model="another")

    sentence = "the upstream counts far fewer tokens than were sent: it may cut prompts silently"
    assert [line["model"] for line in heard.lines(sentence)] == ["fake", "another"]
    assert met.chats == 4
