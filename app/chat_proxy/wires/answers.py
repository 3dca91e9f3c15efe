"""What the proxy reads from answers, and what it writes into them, whatever the API."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import orjson

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.errors import ProxyError, UpstreamInvalidResponse
from chat_proxy.wires.usage import PARSED_BYTES, Usage, read_leniently

OVERFLOW_CODE = "context_length_exceeded"


@dataclass(frozen=True, slots=True)
class Completion:
    """The first choice of a model's answer; its reasoning is noted but not kept."""

    text: str
    finish_reason: str | None
    calls_tools: bool
    refuses: bool
    usage: Usage | None
    cached_tokens: int | None = None
    """The prompt tokens that came from a cache, None if the upstream does not report them."""

    def limited_to(self, max_tokens: int) -> Self:
        """Return the completion with the reason for its end, where the upstream gives none.

        llama.cpp calls every response completed: one that has its maximum of tokens was cut.
        """
        is_full = self.usage is not None and self.usage.completion_tokens >= max_tokens
        return replace(self, finish_reason="length") if is_full and not self.finish_reason else self


class Tap(Protocol):
    """Observes a stream of server-sent events while it is relayed."""

    @property
    def response_id(self) -> str:
        """The id that the stream gave its answer, where its last event must repeat it."""
        ...

    @property
    def done(self) -> bool:
        """Whether the stream has said that it ends."""
        ...

    @property
    def said_all(self) -> bool:
        """Whether nothing more of the stream is relayed."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the stream need not be waited for any longer."""
        ...

    @property
    def failed(self) -> bool:
        """Whether the stream has an error in it."""
        ...

    @property
    def off(self) -> bool:
        """Whether the tap gave up."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether the stream may end here without counting as truncated."""
        ...

    @property
    def is_inside_event(self) -> bool:
        """Whether the last event that was relayed is incomplete."""
        ...

    @property
    def usage(self) -> Usage | None:
        """The last usage in the stream."""
        ...

    def may_end_in(self, chunk: bytes) -> bool:
        """Return whether a chunk may hold the end of the stream."""
        ...

    def feed(self, chunk: bytes) -> bytes:
        """Return the part of the chunk to relay."""
        ...


class Reply(NamedTuple):
    """An answer that the proxy gives in the model's place."""

    text: str
    model: str
    request_id: str
    created: int
    wants_usage: bool = False
    """Whether the client asked for usage in the stream; other APIs always have it."""


class AnswerForm(ABC):
    """The form of an API's answers."""

    ping: ClassVar[bytes] = b": ping\n\n"
    """What keeps a silent stream open."""
    waiting: ClassVar[bytes] = b": compacting\n\n"
    """What keeps a stream open while a summary is written."""

    refuses_by_status: ClassVar[bool] = False
    """Whether an error that a stream begins with is sent with a status of its own."""

    @abstractmethod
    def tap(self) -> Tap:
        """Return an observer of one stream."""

    @abstractmethod
    def usage_of(self, document: object) -> Usage | None:
        """Return the usage in an answer, if there is one."""

    @abstractmethod
    def completion_in_document(self, document: dict[str, Any]) -> Completion:
        """Return what the model said in an answer that is not a stream."""

    @abstractmethod
    def completion_in_events(self, body: bytes) -> Completion:
        """Return what the model said in a whole stream.

        Raise UpstreamInvalidResponse for an error, UpstreamTruncated if the end is missing.
        """

    def error_document(self, error: ProxyError) -> dict[str, Any]:
        """Return an error of the proxy as a body."""
        return error.document()

    @abstractmethod
    def error_event(
        self, document: dict[str, Any], request_id: str, response_id: str = ""
    ) -> bytes:
        """Return an error, in OpenAI's or the API's own shape, as the last event of a stream.

        `response_id` is the id that the answer has in the events before.
        """

    def too_long(self, body: bytes, needed: int, limit: int) -> bytes:  # noqa: ARG002 - for APIs with words of their own
        """Return an upstream's refusal for length as the API's clients understand it."""
        return body

    @abstractmethod
    def whole_reply(self, reply: Reply) -> bytes:
        """Return an answer of the proxy as a document."""

    @abstractmethod
    def streamed_reply(self, reply: Reply) -> bytes:
        """Return an answer of the proxy as a stream."""

    def usage_of_answer(self, body: bytes) -> Usage | None:
        """Check that a successful answer is JSON and return its usage.

        A large one is checked by its ends only: parsing it would block the event loop.
        """
        text = body.strip()
        if not text.startswith(b"{") or not text.endswith(b"}"):
            raise UpstreamInvalidResponse
        if len(text) > PARSED_BYTES:
            return None
        try:
            return self.usage_of(orjson.loads(text))
        except orjson.JSONDecodeError:
            return self.usage_of(read_leniently(text))


def parsed_document(body: bytes) -> dict[str, Any]:
    """Parse a document or the data of an event, or raise UpstreamInvalidResponse."""
    try:
        document: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = read_leniently(body)
    if not isinstance(document, dict):
        raise UpstreamInvalidResponse
    return document


def data_events(body: bytes) -> list[dict[str, Any]]:
    """Return the documents in a stream of server-sent events, without `[DONE]`."""
    found = []
    for line in body.splitlines():
        name, _, value = line.partition(b":")
        if name == b"data" and value.strip() not in (b"", b"[DONE]"):
            found.append(parsed_document(value))
    return found


def named_event(document: dict[str, Any]) -> bytes:
    """Return a document as an event that is named after its type; without a type, by data alone."""
    kind = document.get("type")
    data = b"data: %b\n\n" % serialise(document)
    if not isinstance(kind, str) or not kind.isascii() or not kind.isprintable():
        return data
    return b"event: %b\n%b" % (kind.encode(), data)


def error_in(document: dict[str, Any]) -> dict[str, Any]:
    """Return the error of a document, in whatever shape it is."""
    error = document.get("error", document)
    if isinstance(error, dict):
        return error
    return {"message": str(error)}
