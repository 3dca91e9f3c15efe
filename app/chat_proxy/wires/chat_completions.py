"""Chat completions: the API in whose words the proxy thinks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.errors import UpstreamInvalidResponse, UpstreamTruncated
from chat_proxy.wires.answers import AnswerForm, Completion, Reply, data_events, error_in
from chat_proxy.wires.own_calls.chat import ChatOwnCalls, restored
from chat_proxy.wires.own_calls.edit import Round
from chat_proxy.wires.reading import Entry, Fields, Reading, picked
from chat_proxy.wires.usage import StreamTap, Usage, cached_tokens_in, usage_of
from chat_proxy.wires.wire import Query, Wire, Written

DONE: Final = b"data: [DONE]\n\n"
# No model wrote a reply of ours. A summary's cost is not part of any client's usage; it is in the
# metrics of side-queries.
_NO_USAGE: Final = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
PROMPT_FIELDS: Final = (
    "tools",
    # As the client sent it: SGLang leaves the tools out of the prompt for "none", so that only the
    # first few tokens would be cached.
    "tool_choice",
    "functions",
    "function_call",
    "documents",
    "chat_template",
    "chat_template_kwargs",
    "mm_processor_kwargs",
    "media_io_kwargs",
    "prompt_cache_key",
    "cache_salt",
    "user",
    "safety_identifier",
)
"""The fields from which a server renders the prompt; without them it would be another prompt."""


class ChatAnswers(AnswerForm):
    """The form of chat completions' answers."""

    refuses_by_status = True

    def tap(self) -> StreamTap:
        """Return an observer of one stream."""
        return StreamTap()

    def usage_of(self, document: object) -> Usage | None:
        """Return the usage in a completion or a chunk."""
        return usage_of(document)

    def completion_in_document(self, document: dict[str, Any]) -> Completion:
        """Return the completion in an answer that is not a stream."""
        if document.get("error"):
            raise UpstreamInvalidResponse
        parts = _Parts()
        for choice in _choices(document):
            parts.add(choice.get("message"), choice.get("finish_reason"))
        return parts.completion(usage_of(document), cached_tokens_in(document.get("usage")))

    def completion_in_events(self, body: bytes) -> Completion:
        """Return the completion in a stream of server-sent events."""
        parts = _Parts()
        usage = cached = None
        for document in data_events(body):
            if document.get("error"):
                raise UpstreamInvalidResponse
            if (found := usage_of(document)) is not None:
                usage, cached = found, cached_tokens_in(document["usage"])
            for choice in _choices(document):
                parts.add(choice.get("delta"), choice.get("finish_reason"))
        if parts.finish_reason is None and not _is_done(body):
            raise UpstreamTruncated
        return parts.completion(usage, cached)

    def error_event(
        self,
        document: dict[str, Any],
        request_id: str,  # noqa: ARG002 - as all wires
        response_id: str = "",  # noqa: ARG002 - as all wires
    ) -> bytes:
        """Return an error as the last event of a stream."""
        error = document if "error" in document else {"error": error_in(document)}
        return b"data: " + serialise(error) + b"\n\n" + DONE

    def whole_reply(self, reply: Reply) -> bytes:
        """Return an answer of the proxy as a completion."""
        message = {"role": "assistant", "content": reply.text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        head = {**_head(reply), "object": "chat.completion"}
        return serialise({**head, "choices": [choice], "usage": _NO_USAGE})

    def streamed_reply(self, reply: Reply) -> bytes:
        """Return an answer of the proxy as chunks: role, content, end."""
        return b"".join(_reply_events(reply))


def _head(reply: Reply) -> Fields:
    return {
        "id": f"chatcmpl-{reply.request_id}",
        "created": reply.created,
        "model": reply.model,
    }


def _reply_events(reply: Reply) -> Iterator[bytes]:
    usage = {"usage": None} if reply.wants_usage else {}
    chunk = {**_head(reply), "object": "chat.completion.chunk", **usage}
    start = {"role": "assistant", "content": ""}
    for delta, reason in ((start, None), ({"content": reply.text}, None), ({}, "stop")):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        yield b"data: " + serialise({**chunk, "choices": [choice]}) + b"\n\n"
    if reply.wants_usage:
        yield b"data: " + serialise({**chunk, "choices": [], "usage": _NO_USAGE}) + b"\n\n"
    yield DONE


def _is_done(body: bytes) -> bool:
    return any(
        line.startswith(b"data:") and line[5:].strip() == b"[DONE]" for line in body.splitlines()
    )


@dataclass(slots=True)
class _Parts:
    """The parts of a completion that have been read so far."""

    pieces: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    calls_tools: bool = False
    refuses: bool = False

    def add(self, message: Any, finish_reason: Any) -> None:
        if isinstance(finish_reason, str):
            self.finish_reason = finish_reason
        if not isinstance(message, dict):
            return
        content = message.get("content")
        if isinstance(content, str):
            self.pieces.append(content)
        elif isinstance(content, list):
            self.pieces += [_text_of(part) for part in content]
        self.calls_tools |= bool(message.get("tool_calls") or message.get("function_call"))
        self.refuses |= bool(message.get("refusal"))

    def completion(self, usage: Usage | None, cached_tokens: int | None) -> Completion:
        return Completion(
            "".join(self.pieces),
            self.finish_reason,
            self.calls_tools,
            self.refuses,
            usage,
            cached_tokens,
        )


def _choices(document: dict[str, Any]) -> list[dict[str, Any]]:
    choices = document.get("choices")
    if not isinstance(choices, list):
        return []
    return [each for each in choices if isinstance(each, dict) and each.get("index", 0) == 0]


def _text_of(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


class ChatCompletions(Wire):
    """The form of chat completions."""

    name = "chat"
    path = "/chat/completions"
    answers = ChatAnswers()

    def read(self, fields: Fields) -> Reading:
        """Return the messages as they are."""
        return Reading(fields.get("messages"), options=fields)

    def write(self, fields: Fields, reading: Reading, entries: Iterable[Entry]) -> Written:  # noqa: ARG002 - as all wires
        """Return the client's messages by their index, others as they are."""
        return Written(
            [
                fields if changed or origin is None else origin
                for origin, fields, changed in entries
            ],
            {},
        )

    def lowered(self, fields: Fields, output: Mapping[str, int]) -> Fields:  # noqa: ARG002 - as all wires
        """Return the output fields, which have their own names here."""
        return dict(output)

    def new_item(self, message: Fields) -> Fields:
        """Return the message."""
        return message

    def tool(self, definition: Fields) -> Fields:
        """Return a tool of the proxy in the form of this API."""
        return definition

    def own_calls(self, tool: str) -> ChatOwnCalls:
        """Return what takes the calls of a tool out of answers."""
        return ChatOwnCalls(tool)

    def restored(self, items: list[Fields], rounds: Sequence[Round]) -> list[Fields] | None:
        """Return a turn of the client with the calls that were taken out of it."""
        return restored(items, rounds)

    def query_fields(self, fields: Fields, query: Query) -> Fields:
        """Return the fields that decide about the prompt, and those of a query."""
        own: Fields = {"model": query.model, **picked(fields, PROMPT_FIELDS), "stream": True}
        if "max_completion_tokens" in fields:
            own["max_completion_tokens"] = query.max_tokens
        if query.temperature is not None:
            own["temperature"] = query.temperature
        return own


CHAT_COMPLETIONS: Final = ChatCompletions()
