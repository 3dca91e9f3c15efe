"""The scripted upstream: it counts, remembers, refuses what is too long, and summarises."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import orjson
from aiohttp import web

from bench.conversation.cache import PrefixCache
from bench.conversation.prompt import Json, Prompt, broken_pairs, count
from bench.conversation.responses import chat_fields, response
from bench.conversation.sessions import MODEL
from bench.conversation.summarisers.request import PURPOSE_HEADER, is_asked_for
from bench.conversation.summary import summary

# Agents take seconds between two requests; what a proxy does behind the scenes is done by then.
SECONDS_TO_DIGEST = 0.03
SUMMARY_MODEL = "scripted-summariser"
RECALL_TOOL = "chat_proxy_recall"
RECALL_CALL = "call_recall"
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
    seconds_to_summarise: float = 0.0
    """How long a summary is held back until the chat request arrives that it is not needed for."""
    reply: str = "Well."
    """What it answers to a chat request."""
    calls: list[Call] = field(default_factory=list)
    refused: int = 0
    last: Prompt | None = None
    """The newest chat prompt that was accepted."""
    port: int = 0
    looks_for: str = ""
    """Words that the model searches its earlier messages for before it answers, if it can."""

    def begin(self, window: int) -> None:
        """Forget everything, and take prompts up to this window."""
        self.window, self.refused, self.last = window, 0, None
        self.calls = []
        self.error: Exception | None = None
        self._cache = PrefixCache()
        self.has_chat = asyncio.Event()
        """Cleared by a sender; set when its chat request was accepted."""
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

    async def health(self, _: web.Request) -> web.Response:
        """Say that it is ready, as vLLM does."""
        return web.Response()

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer a chat request."""
        return await self._served(request, Prompt(orjson.loads(await request.read())))

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Answer a request of the Responses API, whole."""
        fields = chat_fields(orjson.loads(await request.read()))
        return await self._served(request, Prompt(fields), in_items=True)

    async def _served(
        self, request: web.Request, prompt: Prompt, *, in_items: bool = False
    ) -> web.StreamResponse:
        self._busy += 1
        self._free.clear()
        try:
            return await self._answer(request, prompt, in_items=in_items)
        except ConnectionError:  # the caller left
            raise
        except Exception as error:
            self.error = error  # else a mistake of ours would look like a refusal
            raise
        finally:
            self._busy -= 1
            if not self._busy:
                self._free.set()

    async def _answer(
        self, request: web.Request, prompt: Prompt, *, in_items: bool
    ) -> web.StreamResponse:
        if len(prompt.tokens) >= self.window:
            self.refused += 1
            return _json(_too_long(self.window), 400)
        purpose = request.headers.get(PURPOSE_HEADER)
        is_summary = is_asked_for(prompt, purpose)
        is_side_query = is_summary or purpose is not None
        text = self.summarise(prompt) if is_summary else self.reply
        if text is None:
            return _json(_NO_MODEL, 500)
        if is_summary:
            await self._until_chat_arrives()
        cached = self._cache.take(prompt.tokens)
        pairs = 0 if is_side_query else broken_pairs(prompt.messages)
        self.calls.append(Call(len(prompt.tokens), cached, count(text), is_side_query, pairs))
        if not is_side_query:
            self.last = prompt
            self.has_chat.set()
        if not is_side_query and self.looks_for and _may_search(prompt):
            return _json(_search(self.looks_for, len(prompt.tokens)))
        answer = _Answer(prompt, text, cached)
        if in_items:
            return _json(response(MODEL, len(self.calls), text, answer.usage()))
        return await answer.stream(request) if prompt.fields.get("stream") else answer.whole()

    async def _until_chat_arrives(self) -> None:
        if self.seconds_to_summarise:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.has_chat.wait(), self.seconds_to_summarise)


@dataclass(frozen=True, slots=True)
class _Answer:
    prompt: Prompt
    text: str
    cached: int

    def whole(self) -> web.Response:
        message = {"role": "assistant", "content": self.text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return _json({**_HEAD, "choices": [choice], "usage": self.usage()})

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        head = {**_HEAD, "object": "chat.completion.chunk"}
        for delta, end in (({"role": "assistant", "content": self.text}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": end}
            await response.write(_event({**head, "choices": [choice]}))
        await response.write(_event({**head, "choices": [], "usage": self.usage()}))
        await response.write(b"data: [DONE]\n\n")
        return response

    def usage(self) -> Json:
        sent, written = len(self.prompt.tokens), count(self.text)
        return {
            "prompt_tokens": sent,
            "completion_tokens": written,
            "total_tokens": sent + written,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }


_NO_MODEL: Json = {"error": {"message": "The model is not there.", "type": "server_error"}}
_HEAD: Json = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL}


def _may_search(prompt: Prompt) -> bool:
    """Tell whether the recall tool is offered and was not called yet in this answer."""
    tools = [tool["function"]["name"] for tool in prompt.fields.get("tools") or ()]
    return RECALL_TOOL in tools and prompt.messages[-1].get("tool_call_id") != RECALL_CALL


def _search(words: str, tokens: int) -> Json:
    arguments = orjson.dumps({"search": words}).decode()
    function = {"name": RECALL_TOOL, "arguments": arguments}
    call = {"id": RECALL_CALL, "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    written = count(arguments)
    usage = {"prompt_tokens": tokens, "completion_tokens": written, "total_tokens": tokens}
    return {**_HEAD, "choices": [choice], "usage": usage}


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
            web.get("/health", model.health),
            web.post("/v1/chat/completions", model.chat),
            web.post("/v1/responses", model.respond),
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
