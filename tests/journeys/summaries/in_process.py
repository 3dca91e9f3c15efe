"""The proxy's decisions without sockets: many small conversations in one second."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import httpx

from chat_proxy.chat.body.request import ChatRequest, read_request
from chat_proxy.proxy.chat import prepare_or_fail_open
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.caller import Caller
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.sizing.tokenizers import Tokenizers
from chat_proxy.telemetry.record import RequestRecord
from chat_proxy.upstream.breaker import Breakers
from chat_proxy.upstream.client import Call, Upstream
from chat_proxy.wiring import make_services
from tests.support.live import settings
from tests.support.message_slices import message_slices
from tests.support.summary_material import material_of, some_of
from tests.support.summary_model import written
from tests.unit.chat.shapes import Fields


def summary_of(question: Fields) -> str:
    """Return a usable summary: some lines of what the question shows."""
    return written(some_of(material_of(question["messages"])))


@dataclass
class Answered:
    """An answer to a question of the proxy's own, read at once."""

    body: bytes
    status: int = 200
    headers: Sequence[tuple[bytes, bytes]] = ()
    content_type: bytes = b"application/json"
    is_encoded: bool = False

    async def read_some(self) -> bytes:
        body, self.body = self.body, b""
        return body

    def release(self) -> None:
        """Nothing is held."""


@dataclass
class Writer:
    """A model that is only asked for summaries; `tell` says what it answers."""

    tell: Callable[[Fields], str] = summary_of
    asked: list[Fields] = field(default_factory=list)
    breakers: Breakers = field(default_factory=lambda: Breakers(0, 1))

    async def send(self, call: Call) -> Answered:
        question = json.loads(call.body)
        self.asked.append(question)
        assert (b"x-chat-proxy-purpose", b"summary") in call.headers
        message = {"role": "assistant", "content": self.tell(question)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return Answered(json.dumps({"choices": [choice]}).encode())

    async def fetch(self, *_: object) -> httpx.Response:
        card = {"id": "fake", "owned_by": "vllm"}
        return httpx.Response(200, json={"object": "list", "data": [card]})


@dataclass
class Sent:
    """What the client sent, and what became of it."""

    request: ChatRequest
    body: bytes
    record: RequestRecord

    @property
    def given(self) -> list[Fields]:
        return list(self.request.fields["messages"])

    @property
    def messages(self) -> list[Fields]:
        return list(json.loads(self.body)["messages"])

    @property
    def prompt(self) -> bytes:
        """The messages' bytes, from the first to the last."""
        places = message_slices(self.body)
        return self.body[places[0].start : places[-1].stop] if places else b""

    @property
    def label(self) -> str:
        return self.record.compaction

    def begins(self, other: "Sent") -> bool:
        """Tell whether this prompt is a byte prefix of the other's."""
        return (other.prompt + b",").startswith(self.prompt + b",")


@dataclass
class Desk:
    """One proxy that nobody has asked anything yet."""

    services: Services
    writer: Writer
    run: Callable[[Any], Any]
    sent: list[Sent] = field(default_factory=list)
    reads_on: bool = False
    """Whether a body is read from where it was read before, or always as a whole."""

    def ask(self, messages: Sequence[Fields], mode: str = "on", **fields: Any) -> Sent:
        """Have a request prepared, and return what would go upstream."""
        sent = self.run(self.asked(messages, mode, **fields))
        return cast("Sent", sent)

    async def asked(self, messages: Sequence[Fields], mode: str = "on", **fields: Any) -> Sent:
        document = {"model": "fake", "messages": messages, **fields}
        return await self.asked_in(json.dumps(document, separators=(",", ":")).encode(), mode)

    async def asked_in(self, body: bytes, mode: str = "on", tenant: str = "t") -> Sent:
        """Have these very bytes prepared."""
        beginnings = self.services.body_prefixes if self.reads_on else None
        request = read_request(body, self.services.limits, beginnings)
        name = f"request-{len(self.sent)}"
        record = RequestRecord(name, "/v1/chat/completions", "POST", mode=mode)
        visit = RequestContext(
            record, Caller(tenant, []), [], {}, b"", cast("Any", None), cast("Any", None)
        )
        to = self.services.model_routes.of(request.model)
        prepared = await prepare_or_fail_open(request, to, visit, self.services)
        record.finish()
        self.services.chat_log.add(record)
        self.sent.append(Sent(request, prepared.body, record))
        return self.sent[-1]


class House:
    """An event loop and a loaded tokenizer for many desks, as these take time to make."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._tokenizers = runner.run(self._loaded())

    async def _loaded(self) -> Tokenizers:
        tokenizers = Tokenizers()
        await tokenizers.loaded("o200k_base")
        return tokenizers

    @contextmanager
    def desk(self, window: int, writer: Writer | None = None, **sections: Any) -> Iterator[Desk]:
        """Open a proxy with a store of its own.

        Unless told otherwise, nothing is prepared and a request over the trigger waits.
        """
        writer = writer or Writer()
        budget = {"context_window": window, "prepare": 1, **sections.pop("budget", {})}
        summary = {"wait": "trigger", **sections.pop("summary", {})}
        services = make_services(settings(budget=budget, summary=summary, **sections), {})
        upstream = cast("Upstream", writer)
        services.windows._upstream = upstream
        services = with_parts(services, upstream, self._tokenizers)
        self._runner.run(services.store.open())
        try:
            yield Desk(services, writer, self._runner.run)
        finally:
            self._runner.run(self._closed(services))

    async def _closed(self, services: Services) -> None:
        await services.chat_log.close()
        await services.compaction.summaries.jobs.close()
        await services.compaction.last_seen.close()
        await services.compaction.checkpoints.close()
        await services.store.close()
        await services.windows.close()

    def close(self) -> None:
        self._runner.run(self._tokenizers.close())


def with_parts(services: Services, upstream: Upstream, tokenizers: Tokenizers) -> Services:
    """Return the services with another upstream and other tokenizers wherever they are used."""
    compaction = services.compaction
    return replace(
        services,
        sizing=replace(services.sizing, tokenizers=tokenizers),
        compaction=replace(
            compaction,
            tokenizers=tokenizers,
            summaries=replace(compaction.summaries, upstream=upstream),
        ),
        forwarding=replace(services.forwarding, upstream=upstream),
    )


@contextmanager
def open_house() -> Iterator[House]:
    """Run a loop until the block ends."""
    with asyncio.Runner() as runner:
        house = House(runner)
        try:
            yield house
        finally:
            house.close()
