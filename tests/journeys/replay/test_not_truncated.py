"""Low counts that have other reasons than a cut prompt: nothing is learned, nothing sent again."""

import json

import pytest

from tests.journeys.counting.pictures import png
from tests.journeys.replay.truncating_server import (
    OLLAMA,
    TruncatingServer,
    guest_of_truncating,
)
from tests.journeys.summaries.talking import SYSTEM, prose, turns
from tests.support.fake_model import Line
from tests.support.summary_model import Question, Telling
from tests.unit.chat.shapes import Fields, image, says, system, text, user

pytestmark = pytest.mark.anyio

NUM_CTX = 8_192
CHINESE = "加载程序只读一次表格，并保留以后可能需要的每一行。请说明模块的作用。"  # noqa: RUF001


def chat(name: int = 0) -> list[Fields]:
    """A conversation of more than twice the window."""
    return [SYSTEM, *turns(10, 1_800, first=100 * name), user("And now?")]


@pytest.mark.parametrize("owner", [OLLAMA, "somebody", "vllm"])
@pytest.mark.parametrize("factor", [0.7, 0.6])
async def test_a_better_tokenizer_is_never_suspected(owner: str, factor: float) -> None:
    server = TruncatingServer(num_ctx=10**6, owner=owner, factor=factor)
    history = chat()
    async with guest_of_truncating(server) as guest:
        for number in range(12):
            await guest.tell(history)
            history += [says(prose(900, number)), user(f"And {number}?")]
        told = await guest.window()

    assert told is None
    assert len(guest.calls) == 12


@pytest.mark.parametrize(
    ("owner", "factor", "english"),
    [(OLLAMA, 0.62, 5), (OLLAMA, 0.55, 0), ("somebody", 0.5, 5), ("somebody", 0.5, 0)],
)
async def test_a_tokenizer_that_is_better_at_chinese_is_never_suspected(
    owner: str, factor: float, english: int
) -> None:
    """At first contact, or when the count is calibrated for English."""
    server = TruncatingServer(num_ctx=10**6, owner=owner, factor=1.0)
    history = [system(CHINESE)]
    async with guest_of_truncating(server) as guest:
        for number in range(english):
            await guest.tell(chat(number))
        server.factor = factor
        for number in range(12):
            history += [user(f"{number}: {CHINESE * 30}"), says(CHINESE * 40)]
            await guest.tell([*history, user("继续")])
        told = await guest.window()

    assert told is None
    assert len(guest.calls) == 12 + english


@pytest.mark.parametrize("owner", [OLLAMA, "somebody"])
async def test_pictures_that_cost_less_than_we_think_are_not_suspicious(owner: str) -> None:
    photos = [image(png(1_400, 1_400 + number)) for number in range(8)]
    question = user([text("Compare these."), *photos])
    server = TruncatingServer(num_ctx=10**6, owner=owner)
    async with guest_of_truncating(server) as guest:
        for tokens in (NUM_CTX, NUM_CTX // 2 + 2, 4_095):
            server.others = {len(server.chats): reporting(tokens)}
            await guest.tell([user(prose(1_000, tokens)), says("Yes."), question])
        told = await guest.window()

    assert told is None
    assert len(guest.calls) == 3


def reporting(tokens: int) -> Telling:
    """Answer, and report so many tokens."""

    async def answer(_: Question, line: Line) -> None:
        choice = {"index": 0, "message": says("Well."), "finish_reason": "stop"}
        usage = {"prompt_tokens": tokens, "completion_tokens": 6}
        body = json.dumps({"choices": [choice], "usage": usage}).encode()
        await line.head(200, "content-type: application/json", f"content-length: {len(body)}")
        await line.send(body)

    return answer


async def test_a_server_that_refuses_what_is_too_long_is_not_suspected() -> None:
    """vLLM, llama.cpp and OpenAI never truncate: their low counts have other reasons."""
    server = TruncatingServer(num_ctx=NUM_CTX, owner="vllm")
    async with guest_of_truncating(server) as guest:
        await guest.tell(chat())
        told = await guest.window()

    assert told is None
    assert len(guest.calls) == 1


async def test_a_client_that_asks_for_truncation_gets_it() -> None:
    server = TruncatingServer(num_ctx=NUM_CTX)
    async with guest_of_truncating(server) as guest:
        await guest.tell(chat(), truncate_prompt_tokens=4_096)
        told = await guest.window()

    assert told is None
    assert len(guest.calls) == 1
