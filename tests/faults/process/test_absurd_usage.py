"""Row E10: figures that no counter takes."""

import json
from typing import Any

import pytest

from tests.faults.faulty import Says, Streams, whole
from tests.support.fake_model import COMPLETION, DONE, event, on_chat
from tests.support.meeting import meeting

pytestmark = pytest.mark.anyio

USAGES: list[Any] = [{"prompt_tokens": -5}, {"prompt_tokens": 10**30}, [], "x", None]


@pytest.mark.parametrize("usage", USAGES, ids=str)
async def test_e10_absurd_usage_spoils_neither_answer_nor_figures(usage: Any) -> None:
    document = {**COMPLETION, "usage": usage}
    async with meeting(Says(whole("200 OK", json.dumps(document).encode()))) as they:
        answer = await they.ask()
        they.model.behaviour = on_chat(Streams(event(document), DONE))
        streamed = await they.stream()

        assert json.loads(answer.body) == document
        assert streamed.body == event(document) + DONE
        assert they.figure('chat_proxy_bytes_total{direction="in"}') > 0
