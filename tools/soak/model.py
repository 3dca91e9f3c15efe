"""The upstream: answers, counts, writes summaries, and goes wrong as the request's id says."""

import asyncio
from random import Random

from tests.support.fake_model import (
    COMPLETION,
    DONE,
    MODELS,
    Behaviour,
    FakeModel,
    Line,
    Received,
    answer_json,
    begin_stream,
    delta,
    event,
)
from tests.support.meeting import cut
from tests.support.summary_model import Question, chosen, overflow, written
from tools.soak.plan import FINE, trouble_of

BYTES_PER_TOKEN = 5
LONGEST_WAIT_SECONDS = 20
"""Nobody waits so long: a request that does was forgotten."""


class SoakModel:
    """A fake model's behaviour; it keeps figures, never requests."""

    def __init__(self, random: Random, window: int) -> None:
        self._random = random
        self._window = window
        self.chats = 0
        self.summaries = 0
        self.forgotten = 0

    async def __call__(self, received: Received, line: Line) -> None:
        if not received.target.startswith("/v1/chat/completions"):
            await answer_json(line, MODELS)
        elif received.header("x-chat-proxy-purpose") == "summary":
            self.summaries += 1
            await self._summarise(received, line)
        else:
            self.chats += 1
            await self._chat(received, line)

    async def _chat(self, received: Received, line: Line) -> None:
        trouble = trouble_of(received.header("x-request-id"))
        if trouble == "limit":
            await answer_json(line, {"error": {"message": "slow down"}}, 429, "retry-after: 1")
        elif trouble == "break":
            await answer_json(line, {"error": {"message": "out of order"}}, 500)
        elif trouble == "overflow" and self._random.random() < 0.7:
            await answer_json(line, overflow(self._window), 400)
        elif trouble == "waiting":
            await self._until_left(line)
        elif b'"stream": true' in received.body:
            await self._stream(trouble, received, line)
        else:
            await self._whole(trouble, received, line)

    async def _stream(self, trouble: str, received: Received, line: Line) -> None:
        if trouble == "stall" and self._random.random() < 0.5:
            await self._until_left(line)
            return
        await begin_stream(line)
        for number in range(8):
            await line.chunk(delta(f"word{number} "))
            if number == 4 and trouble != FINE and await self._broke_off(trouble, line):
                return
        await line.chunk(delta(finish_reason="stop"))
        await line.chunk(event({"choices": [], "usage": self._usage(received)}))
        await line.chunk(DONE)
        await line.chunk(b"")

    async def _broke_off(self, trouble: str, line: Line) -> bool:
        if trouble == "reset":
            cut(line)
        elif trouble == "truncate":
            await line.chunk(b"")
        elif trouble in ("stall", "reading"):
            await self._until_left(line)
        else:
            return False
        return True

    async def _whole(self, trouble: str, received: Received, line: Line) -> None:
        if trouble in ("reset", "truncate"):
            await line.head(200, "content-type: application/json", "content-length: 500")
            await line.send(b'{"id": "chat')
            cut(line) if trouble == "reset" else line.writer.close()
        else:
            await answer_json(line, {**COMPLETION, "usage": self._usage(received)})

    async def _summarise(self, received: Received, line: Line) -> None:
        """Write a summary; one of twenty comes to nothing."""
        drawn = self._random.random()
        await asyncio.sleep(drawn * 0.1)
        if drawn < 0.02:
            await answer_json(line, {"error": {"message": "out of order"}}, 500)
            return
        text = "" if drawn < 0.05 else written(chosen(Question(received)))
        await begin_stream(line)
        await line.chunk(delta(text))
        await line.chunk(delta(finish_reason="stop"))
        await line.chunk(event({"choices": [], "usage": self._usage(received)}))
        await line.chunk(DONE)
        await line.chunk(b"")

    async def _until_left(self, line: Line) -> None:
        try:
            await asyncio.wait_for(line.until_closed(), LONGEST_WAIT_SECONDS)
        except TimeoutError:
            self.forgotten += 1
            cut(line)

    def _usage(self, received: Received) -> dict[str, int]:
        tokens = len(received.body) // BYTES_PER_TOKEN
        return {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9}


def forgetting(model: FakeModel, behaviour: Behaviour) -> Behaviour:
    """Behave so, and keep no request."""

    async def behave(received: Received, line: Line) -> None:
        model.requests.clear()
        await behaviour(received, line)

    return behave
