"""Row B28: a server that cuts prompts to its window and answers as if nothing had happened."""

import json

import pytest

from tests.journeys.replay.small_server import is_answer
from tests.journeys.replay.truncating_server import (
    TruncatingServer,
    guest_of_truncating,
    truncations,
)
from tests.journeys.summaries.talking import SYSTEM, turns
from tests.support.summary_model import failing
from tests.unit.chat.shapes import Fields, user

pytestmark = pytest.mark.anyio

NUM_CTX = 8_192
LEARNED = {"tokens": NUM_CTX, "source": "learned"}
CHAT: list[Fields] = [SYSTEM, *turns(10, 1_800), user("And now?")]


async def test_b28_a_whole_answer_is_asked_for_again_and_sees_the_instructions() -> None:
    server = TruncatingServer(num_ctx=NUM_CTX)
    async with guest_of_truncating(server) as guest:
        answer = await guest.tell(CHAT)

        assert truncations(guest, "replayed") == 1
        assert await guest.window() == LEARNED

    assert is_answer(answer)
    assert SYSTEM["content"] not in server.seen(0)
    assert server.seen(1).startswith(SYSTEM["content"])
    assert len(guest.calls) == 2


async def test_b28_a_second_try_that_fails_never_costs_the_first_answer() -> None:
    server = TruncatingServer(num_ctx=NUM_CTX, others={1: failing(500)})
    async with guest_of_truncating(server) as guest:
        answer = await guest.tell(CHAT)

    assert is_answer(answer)
    assert json.loads(answer.body)["usage"]["prompt_tokens"] == NUM_CTX // 2 + 2
    assert len(guest.calls) == 2


async def test_b28_a_stream_is_relayed_and_the_next_request_fits() -> None:
    usage = {"include_usage": True}
    server = TruncatingServer(num_ctx=NUM_CTX)
    async with guest_of_truncating(server) as guest:
        first = await guest.tell(CHAT, stream=True, stream_options=usage)
        second = await guest.tell(CHAT, stream=True, stream_options=usage)

        assert truncations(guest, "relayed") == 1

    assert is_answer(first)
    assert is_answer(second)
    assert server.reports == [NUM_CTX // 2 + 2, guest.prompts[1]]
