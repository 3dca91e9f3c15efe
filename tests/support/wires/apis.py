"""The three APIs, as a client sends and a server answers them: one value each for tests."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from chat_proxy.errors import MethodNotAllowed, ProxyError
from chat_proxy.wires.messages.answers import MessagesAnswers
from tests.support.fake_model import COMPLETION, delta, event, story

Fields = dict[str, Any]
Making = Callable[[str], bytes]


@dataclass(frozen=True)
class Api:
    """One API: what a small request is, and the pieces of its streams."""

    name: str
    path: str
    request: Fields
    whole: Fields
    """A whole answer."""
    words: Making
    """An event with some of the model's words."""
    ends: tuple[bytes, ...]
    """The events at the end of a stream."""
    error: bytes
    """An error of the server as an event."""
    begins: tuple[bytes, ...] = ()
    """The events at the start of a stream."""
    ping: bytes = b": ping\n\n"
    """What the proxy writes into a silent stream."""

    def __str__(self) -> str:
        return self.name

    @property
    def word(self) -> bytes:
        """An event with a word."""
        return self.words("word ")

    def story(self, words: int = 3) -> list[bytes]:
        """Return the events of a whole stream."""
        return [*self.begins, *[self.word] * words, *self.ends]

    def body(self, **fields: Any) -> bytes:
        """Return a small request."""
        return json.dumps({**self.request, **fields}).encode()

    def http(self, body: bytes | None = None, *headers: str) -> bytes:
        """Return a request as raw bytes."""
        sent = self.body() if body is None else body
        lines = [
            f"POST {self.path} HTTP/1.1",
            *("host: proxy", "content-type: application/json", f"content-length: {len(sent)}"),
            *(*headers, "", ""),
        ]
        return "\r\n".join(lines).encode("latin-1") + sent

    def error_of(self, document: Fields) -> str:
        """Check that a document is an error in this API's shape; return what it says it is."""
        error = document["error"]
        if self.name == "messages":
            assert document["type"] == "error"
            assert set(error) == {"type", "message"}, error
            return str(error["type"])
        assert set(error) == {"message", "type", "param", "code"}
        return str(error["code"])

    def last_error(self, stream: bytes, before: bytes) -> str:
        """Check that a stream is what came before and one last error; return its code."""
        assert stream.startswith(before), (stream, before)
        events = [event for event in stream.removeprefix(before).split(b"\n\n") if event]
        if self.name == "chat":
            assert events[-1:] == [b"data: [DONE]"]
            events.pop()
        assert len(events) == 1, events
        (last,) = events
        *names, data = last.split(b"\n")
        document = json.loads(data.removeprefix(b"data: "))
        if self.name == "chat":
            assert not names
            return str(document["error"]["code"])
        assert names == [b"event: " + document["type"].encode()]
        if self.name == "messages":
            self.error_of(document)
            return CODES[document["error"]["message"]]
        assert document["type"] == "response.failed"
        assert document["response"]["status"] == "failed"
        return str(document["response"]["error"]["code"])

    def is_error(self, headers: Fields, body: bytes, code: str) -> bool:
        """Tell whether an answer is an error of the proxy in this API's shape."""
        said = self.error_of(json.loads(body))
        code_said = CODES[json.loads(body)["error"]["message"]] if self.name == "messages" else said
        return (code_said, headers.get("x-chat-proxy-error")) == (code, code)


def _codes(error: type[ProxyError]) -> dict[str, str]:
    found = {error().message: error.code} if error is not MethodNotAllowed else {}
    for each in error.__subclasses__():
        found |= _codes(each)
    return found


CODES = _codes(ProxyError)
"""The code of each error by its words: Messages has no place for codes."""


def named(document: Fields) -> bytes:
    """Return an event that is named after its type."""
    return b"event: %b\n" % document["type"].encode() + event(document)


USER = {"role": "user", "content": "Hi"}
CHAT = Api(
    "chat",
    "/v1/chat/completions",
    {"model": "fake", "messages": [USER]},
    COMPLETION,
    delta,
    tuple(story()[-2:]),
    event({"error": {"message": "engine died", "code": 500}}),
)

_RESPONSE: Fields = {"id": "resp_1", "object": "response", "model": "fake", "output": []}
_USAGE = {"input_tokens": 11, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 6}
_PLACE = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
_SAID = [{"type": "output_text", "text": "Hello.", "annotations": []}]
_WHOLE = {
    **_RESPONSE,
    "status": "completed",
    "incomplete_details": None,
    "usage": _USAGE,
    "output": [{"type": "message", "id": "msg_1", "role": "assistant", "content": _SAID}],
}
_FAILED = {"code": "server_error", "message": "engine died"}
RESPONSES = Api(
    "responses",
    "/v1/responses",
    {"model": "fake", "input": [{"type": "message", **USER}]},
    _WHOLE,
    lambda words: named({"type": "response.output_text.delta", **_PLACE, "delta": words}),
    (named({"type": "response.completed", "response": _WHOLE}),),
    named({"type": "response.failed", "response": {**_RESPONSE, "error": _FAILED}}),
    (named({"type": "response.created", "response": {**_RESPONSE, "status": "in_progress"}}),),
)

_MESSAGE: Fields = {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake"}
_READ = {"input_tokens": 7, "cache_read_input_tokens": 4, "output_tokens": 1}
_STOP = {"stop_reason": "end_turn", "stop_sequence": None}
MESSAGES = Api(
    "messages",
    "/v1/messages?beta=true",
    {"model": "fake", "max_tokens": 50, "messages": [USER]},
    {
        **_MESSAGE,
        **_STOP,
        "content": [{"type": "text", "text": "Hello."}],
        "usage": {**_READ, "output_tokens": 6},
    },
    lambda words: named(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": words},
        }
    ),
    (
        named({"type": "message_delta", "delta": _STOP, "usage": {"output_tokens": 6}}),
        named({"type": "message_stop"}),
    ),
    named({"type": "error", "error": {"type": "api_error", "message": "engine died"}}),
    (named({"type": "message_start", "message": {**_MESSAGE, "content": [], "usage": _READ}}),),
    MessagesAnswers.ping,
)
APIS = (CHAT, RESPONSES, MESSAGES)
ALL = pytest.mark.parametrize("api", APIS, ids=str)
