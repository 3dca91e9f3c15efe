"""A model server whose window is smaller than anyone believes, and a client of its proxy."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_model import FakeModel, Line, Received, begin_stream, fake_model
from tests.support.live import Proxy, RawAnswer, RawClient, chat_request, raw_client, running_proxy
from tests.support.meeting import Meeting
from tests.support.summary_model import Question, SummaryModel
from tests.unit.chat.shapes import Fields

BELIEVED = 100_000
"""The window that the proxy is told of."""


@dataclass(frozen=True)
class Refusal:
    """An answer that is none."""

    body: bytes
    status: int = 400
    headers: tuple[str, ...] = ()
    in_band: bool = False
    """Whether it comes as the first event of a stream."""


Refusing = Callable[[Question], Refusal | None]


@dataclass
class SmallServer(SummaryModel):
    """Answers and writes summaries, unless `refusing` has something to say against it."""

    refusing: Refusing = lambda _: None
    refusals: list[Refusal] = field(default_factory=list)

    async def __call__(self, received: Received, line: Line) -> None:
        if received.method == "POST":
            question = Question(received, self.factor)
            refusal = self.refusing(question)
            if refusal is not None:
                (self.summaries if question.is_summary else self.chats).append(question)
                self.refusals.append(refusal)
                await refuse(refusal, line)
                return
        await super().__call__(received, line)


async def refuse(refusal: Refusal, line: Line) -> None:
    """Answer with a refusal, as an answer of its own or in a stream."""
    if refusal.in_band:
        await begin_stream(line)
        await line.chunk(b"data: " + refusal.body + b"\n\n")
        await line.chunk(b"")
        return
    length = f"content-length: {len(refusal.body)}"
    kind = () if refusal.headers else ("content-type: application/json",)
    await line.head(refusal.status, *kind, *refusal.headers, length)
    await line.send(refusal.body)


def vllm(message: str, **more: Any) -> bytes:
    """An error as vLLM writes it."""
    error = {"message": message, "type": "BadRequestError", "param": None, "code": 400}
    return json.dumps({"error": {**error, **more}}).encode()


def at_least(window: int) -> bytes:
    """What vLLM 0.32 says: the limit, and one more for the prompt whatever its size."""
    return vllm(
        f"This model's maximum context length is {window} tokens. However, your prompt contains at "
        f"least {window + 1} input tokens, which exceeds this limit even without any output "
        f"tokens. Please reduce the length of the input prompt. (parameter=input_tokens, "
        f"value={window + 1})",
        param="input_tokens",
    )


def counted(window: int, prompt: int) -> bytes:
    """What vLLM says of a prompt that it has counted, images and all."""
    return vllm(f"Input length ({prompt}) exceeds model's maximum context length ({window}).")


def with_output(window: int, output: int, prompt: int) -> bytes:
    """What vLLM 0.18 says where prompt and output together are too long; it gives a bound."""
    least = window - output + 1
    assert prompt >= least
    return vllm(
        f"This model's maximum context length is {window} tokens. However, you requested {output} "
        f"output tokens and your prompt contains at least {least} input tokens, for a total of at "
        f"least {window + 1} tokens. Please reduce the length of the input prompt or the number of "
        f"requested output tokens. (parameter=input_tokens, value={least})",
        param="input_tokens",
    )


def too_much_output(window: int, output: int) -> bytes:
    """What vLLM 0.32 says to a request for more output than its whole window."""
    return vllm(
        f"max_tokens={output} cannot be greater than max_model_len={window}. Please request fewer "
        f"output tokens. (parameter=max_tokens, value={output})",
        param="max_tokens",
    )


def over(window: int, *, in_band: bool = False, tells_count: bool = False) -> Refusing:
    """Refuse a prompt that fills the window, as vLLM does."""

    def judge(question: Question) -> Refusal | None:
        if question.tokens < window:
            return None
        body = counted(window, question.tokens) if tells_count else at_least(window)
        return Refusal(body, in_band=in_band and bool(question.fields.get("stream")))

    return judge


def over_with_output(window: int) -> Refusing:
    """Refuse what is too long together with the output that it asks for."""

    def judge(question: Question) -> Refusal | None:
        output = int(question.fields.get("max_tokens") or 0)
        if question.tokens + output <= window:
            return None
        return Refusal(with_output(window, output, question.tokens))

    return judge


def over_bytes(limit: int) -> Refusing:
    """Refuse a body that is too large, as a gateway does: not by tokens, and not in JSON."""
    page = b"<html><head><title>413 Request Entity Too Large</title></head></html>"

    def judge(question: Question) -> Refusal | None:
        is_large = len(question.received.body) > limit
        return Refusal(page, 413, ("content-type: text/html",)) if is_large else None

    return judge


def in_words(window: int, status: int, document: object) -> Refusing:
    """Refuse a prompt that fills the window with this document."""
    told = json.dumps(document).encode()
    return lambda question: Refusal(told, status) if question.tokens >= window else None


def always(body: bytes, status: int = 400) -> Refusing:
    """Refuse everything with the same words."""
    return lambda _: Refusal(body, status)


@dataclass
class Guest(Meeting):
    """A client at the proxy; it gets whatever answer comes."""

    server: SmallServer

    async def tell(self, messages: Sequence[Fields], *headers: str, **fields: Any) -> RawAnswer:
        """Send a history and return the answer."""
        return await self.send(body_of(messages, **fields), *headers)

    async def send(self, body: bytes, *headers: str) -> RawAnswer:
        """Send these very bytes and return the answer."""
        await self.client.send(chat_request(body, *headers))
        return await self.client.answer()

    async def window(self, model: str = "fake", *headers: str) -> Fields | None:
        """Return a model's window and who told it, as explain says."""
        body = body_of([{"role": "user", "content": "Hi"}], model=model)
        request = chat_request(body, *headers).replace(b"completions", b"explain", 1)
        await self.client.send(request)
        told: Fields | None = json.loads((await self.client.answer()).body)["window"]
        return told

    @property
    def calls(self) -> list[bytes]:
        """The chats that the server was asked, byte for byte."""
        return [question.received.body for question in self.server.chats]

    @property
    def prompts(self) -> list[int]:
        """Their tokens, as the server counts them."""
        return [question.tokens for question in self.server.chats]

    @property
    def last(self) -> list[Fields]:
        """The messages of the last one."""
        return self.server.chats[-1].messages

    def replays(self, result: str) -> float:
        """How often an overflow ended so."""
        return self.figure(f'chat_proxy_overflow_replay_total{{result="{result}"}}')


def body_of(messages: Sequence[Fields], **fields: Any) -> bytes:
    """A request as most clients write it."""
    document = {"model": "fake", "messages": messages, **fields}
    return json.dumps(document, separators=(",", ":")).encode()


def stages_of(answer: RawAnswer) -> list[str]:
    """The stages that the answer's headers name."""
    return answer.headers.get("x-chat-proxy-stages", "").split(",")


def label_of(answer: RawAnswer) -> str:
    """What the proxy says that it did."""
    return answer.headers["x-chat-proxy-compaction"]


def is_answer(answer: RawAnswer) -> bool:
    """Tell whether it is what the model said, whole or streamed."""
    return answer.status == 200 and b"Well." in answer.body and b'"error"' not in answer.body


@asynccontextmanager
async def guest_of(
    server: SmallServer, model: FakeModel, window: int | None = BELIEVED, **sections: Any
) -> AsyncIterator[Guest]:
    """Run a proxy that believes in this window before a server that is there, and visit it."""
    budget = {"context_window": window, "prepare": 1, **sections.pop("budget", {})}
    proxy: Proxy
    client: RawClient
    async with (
        running_proxy(model.url, budget=budget, **sections) as proxy,
        raw_client(proxy) as client,
    ):
        yield Guest(model, proxy, client, server)


@asynccontextmanager
async def visiting(
    refusing: Refusing, window: int | None = BELIEVED, *, factor: float = 1.05, **sections: Any
) -> AsyncIterator[Guest]:
    """Run a server that refuses so, and a proxy that believes in this window; visit it."""
    server = SmallServer(refusing=refusing, factor=factor)
    async with fake_model(server) as model, guest_of(server, model, window, **sections) as guest:
        yield guest
