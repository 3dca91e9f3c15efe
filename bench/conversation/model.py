"""The scripted upstream: it counts, remembers, refuses what is too long, and summarises."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import orjson
from aiohttp import web

from bench.conversation.cache import PrefixCache
from bench.conversation.prompt import Json, Prompt, broken_pairs, count
from bench.conversation.sessions import MODEL
from bench.conversation.summarisers.request import PURPOSE_HEADER, is_asked_for
from bench.conversation.summary import summary

# Agents take seconds between two requests; what a proxy does behind the scenes is done by then.
SECONDS_TO_DIGEST = 0.03
SUMMARY_MODEL = "scripted-summariser"
LARGEST_BODY = 64 * 1024 * 1024

Summarise = Callable[[Prompt], str | None]
"""Writes the summary that a request asks for; None says that no model is there to write it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One accepted request, in tokens."""

    sent: int
    cached: int
    written: int
    is_side_query: bool
    broken_pairs: int


@dataclass
class ScriptedModel:
    """Serves one conversation at a time; `begin` forgets the last one."""

    window: int = 0
    summarise: Summarise = summary
    calls: list[Call] = field(default_factory=list)
    refused: int = 0
    last: Prompt | None = None
    """The newest chat prompt that was accepted."""
    port: int = 0

    def begin(self, window: int) -> None:
        """Forget everything, and take prompts up to this window."""
        self.window, self.refused, self.last = window, 0, None
        self.calls = []
        self._cache = PrefixCache()
        self._busy = 0
        self._free = asyncio.Event()
        self._free.set()

    @property
    def last_text(self) -> str:
        """The newest chat prompt that was accepted, tools included."""
        return self.last.text if self.last else ""

    async def idle(self) -> None:
        """Wait until nobody is being answered, and give whoever was a moment to digest it."""
        await asyncio.sleep(SECONDS_TO_DIGEST)
        while self._busy:
            await self._free.wait()
            await asyncio.sleep(SECONDS_TO_DIGEST)

    async def list_models(self, _: web.Request) -> web.Response:
        """Name the model and the one for summaries, and their window, as vLLM does."""
        card = {"object": "model", "owned_by": "vllm", "max_model_len": self.window}
        cards = [{"id": name, **card} for name in (MODEL, SUMMARY_MODEL)]
        return _json({"object": "list", "data": cards})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer a chat request."""
        self._busy += 1
        self._free.clear()
        try:
            return await self._answer(request, Prompt(orjson.loads(await request.read())))
        finally:
            self._busy -= 1
            if not self._busy:
                self._free.set()

    async def _answer(self, request: web.Request, prompt: Prompt) -> web.StreamResponse:
        if len(prompt.tokens) >= self.window:
            self.refused += 1
            return _json(_too_long(self.window), 400)
        purpose = request.headers.get(PURPOSE_HEADER)
        is_summary = is_asked_for(prompt, purpose)
        is_side_query = is_summary or purpose is not None
        text = self.summarise(prompt) if is_summary else "Well."
        if text is None:
            return _json(_NO_MODEL, 500)
        cached = self._cache.take(prompt.tokens)
        pairs = 0 if is_side_query else broken_pairs(prompt.messages)
        self.calls.append(Call(len(prompt.tokens), cached, count(text), is_side_query, pairs))
        if not is_side_query:
            self.last = prompt
        answer = _Answer(prompt, text, cached)
        return await answer.stream(request) if prompt.fields.get("stream") else answer.whole()


@dataclass(frozen=True, slots=True)
class _Answer:
    prompt: Prompt
    text: str
    cached: int

    def whole(self) -> web.Response:
        message = {"role": "assistant", "content": self.text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return _json({**_HEAD, "choices": [choice], "usage": self._usage()})

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        head = {**_HEAD, "object": "chat.completion.chunk"}
        for delta, end in (({"role": "assistant", "content": self.text}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": end}
            await response.write(_event({**head, "choices": [choice]}))
        await response.write(_event({**head, "choices": [], "usage": self._usage()}))
        await response.write(b"data: [DONE]\n\n")
        return response

    def _usage(self) -> Json:
        sent, written = len(self.prompt.tokens), count(self.text)
        return {
            "prompt_tokens": sent,
            "completion_tokens": written,
            "total_tokens": sent + written,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }


_NO_MODEL: Json = {"error": {"message": "The model is not there.", "type": "server_error"}}
_HEAD: Json = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL}


def _event(document: Json) -> bytes:
    return b"data: " + orjson.dumps(document) + b"\n\n"


def _json(document: Json, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(document), status=status, content_type="application/json")


def _too_long(window: int) -> Json:
    message = (
        f"This model's maximum context length is {window} tokens. However, your prompt contains "
        f"at least {window + 1} input tokens, which exceeds this limit even without any output "
        "tokens. Please reduce the length of the input prompt. "
        f"(parameter=input_tokens, value={window + 1})"
    )
    kind = "BadRequestError"
    return {"error": {"message": message, "type": kind, "param": "input_tokens", "code": 400}}


@asynccontextmanager
async def running(model: ScriptedModel) -> AsyncIterator[ScriptedModel]:
    """Serve the model on a free port until the block ends."""
    model.begin(model.window)
    app = web.Application(client_max_size=LARGEST_BODY)
    app.add_routes(
        [
            web.get("/v1/models", model.list_models),
            web.post("/v1/chat/completions", model.chat),
        ]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        model.port = runner.addresses[0][1]
        yield model
    finally:
        await runner.cleanup()
