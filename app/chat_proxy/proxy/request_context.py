"""One request on its way through the proxy: who sent it, where its answer goes, what is noted."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Protocol

from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.lifecycle.cancellation import Cancellation
from chat_proxy.proxy.routing.caller import Caller
from chat_proxy.telemetry.record import RequestRecord
from chat_proxy.upstream.usage import StreamTap, Usage


class Sink(Protocol):
    """Where an answer goes."""

    @property
    def started(self) -> bool:
        """Whether the status has been sent."""
        ...

    def start(self, status: int, headers: RawHeaders) -> Awaitable[None]:
        """Send status and headers."""
        ...

    def answer(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None]:
        """Send a whole answer; its length is told with it."""
        ...

    def write(self, chunk: bytes) -> Awaitable[None]:
        """Send a piece of the body, waiting while the client does not take it."""
        ...

    def end(self, chunk: bytes = b"") -> Awaitable[None]:
        """Send the last piece."""
        ...

    async def abort(self) -> None:
        """Break the connection, so that nobody takes half an answer for a whole one."""
        ...


@dataclass(slots=True)
class RequestContext:
    """What is known about a request beside its body."""

    record: RequestRecord
    caller: Caller
    headers: RawHeaders
    values: Mapping[bytes, bytes]
    """The first value of each header."""
    query: bytes
    sink: Sink
    interrupt: Cancellation
    tap: StreamTap | None = None

    def note_usage(self, usage: Usage | None) -> None:
        """Write down what the upstream counted."""
        if usage is not None:
            self.record.prompt_tokens = usage.prompt_tokens
            self.record.completion_tokens = usage.completion_tokens
            self.record.cached_tokens = usage.cached_tokens
