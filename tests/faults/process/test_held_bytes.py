"""Row E7: more bytes than may be held at once."""

import pytest

from tests.faults.faulty import Waiting, is_error
from tests.support.clock import within
from tests.support.fake_model import fake_model, on_chat
from tests.support.live import chat_body, chat_request, eventually, raw_client, running_proxy

pytestmark = pytest.mark.anyio


async def test_e7_more_bytes_than_may_be_held_are_refused_for_a_moment() -> None:
    waiting = Waiting()
    async with (
        within(10),
        fake_model(on_chat(waiting)) as model,
        running_proxy(model.url, limits={"max_inflight_bytes": 150}) as proxy,
        raw_client(proxy) as first,
        raw_client(proxy) as second,
    ):
        await first.send(chat_request())
        await eventually(lambda: waiting.asked)
        await second.send(chat_request(chat_body(padding="x" * 100)))
        answer = await second.answer()

    assert is_error(answer, 503, "overloaded")
    assert answer.headers["retry-after"] == "1"
