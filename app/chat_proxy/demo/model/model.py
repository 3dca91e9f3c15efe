"""The demo model server."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping
from typing import Any

import orjson

from chat_proxy.demo.apis.messages import MessagesAnswer, error_of
from chat_proxy.demo.apis.request import chat_fields
from chat_proxy.demo.apis.responses import ResponsesAnswer
from chat_proxy.demo.model.answers import Completion
from chat_proxy.demo.model.refusals import DemoError, not_found, wrong_method
from chat_proxy.demo.model.request import ChatRequest, read_json, read_request
from chat_proxy.demo.model.template import measure, room_for_answer
from chat_proxy.demo.model.words import answer

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Sleep = Callable[[float], Awaitable[object]]

RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"
ANSWERS: Mapping[str, type[ResponsesAnswer | MessagesAnswer]] = {
    RESPONSES: ResponsesAnswer,
    MESSAGES: MessagesAnswer,
}
"""The answers of the APIs beside chat completions."""
METHODS = {
    "/health": "GET",
    "/v1/models": "GET",
    "/v1/chat/completions": "POST",
    **dict.fromkeys(ANSWERS, "POST"),
}


class DemoModel:
    """A small model server of all three APIs that describes its prompt, as a plain ASGI app."""

    def __init__(
        self,
        window: int = 4096,
        words_per_second: float = 30.0,
        name: str = "demo",
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._window = window
        self._name = name
        self._pause_seconds = 1 / words_per_second if words_per_second > 0 else 0.0
        self._sleep = sleep
        self._created = int(time.time())

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one HTTP request, or the lifespan events of the server."""
        if scope["type"] == "lifespan":
            await live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Route a request; a DemoError becomes an error response."""
        path = scope["path"]
        try:
            refuse_unknown_routes(scope["method"], path)
            if path == "/health":
                await send_whole(send, 200, b"")
            elif path == "/v1/models":
                await send_json(send, 200, self._models())
            else:
                await self._chat(path, receive, send)
        except DemoError as error:
            body = error_of(error.status, error.body) if path == MESSAGES else error.body
            await send_json(send, error.status, body)

    def _models(self) -> dict[str, object]:
        """Return the list of models, with the demo model only, in vLLM's format."""
        card = {
            "id": self._name,
            "object": "model",
            "created": self._created,
            "owned_by": "chat-proxy",
            "root": self._name,
            "parent": None,
            "max_model_len": self._window,
        }
        return {"object": "list", "data": [card]}

    async def _chat(self, path: str, receive: Receive, send: Send) -> None:
        """Read a request of any API and answer it until the client disconnects."""
        body = await read_body(receive)
        if body is None:
            return
        fields = read_json(body)
        chat = chat_fields(path, fields) if path in ANSWERS else fields
        request = read_request(chat, self._name, self._window)
        completion = self._complete(request, body)
        answer_of = ANSWERS.get(path)
        if not request.stream:
            whole = answer_of(completion).whole() if answer_of else completion.whole()
            answering = self._send_after_pause(completion, whole, send)
        elif answer_of:
            answering = self._stream_events(answer_of(completion).events(), send)
        else:
            answering = self._stream(completion, send, include_usage=request.include_usage)
        await while_listening(answering, receive)

    def _complete(self, request: ChatRequest, body: bytes) -> Completion:
        """Return the whole answer; the pauses are made when it is sent."""
        size = measure(request.messages, request.tool_words, self._window)
        limit = room_for_answer(size, self._window, request.max_tokens)
        return Completion(
            id=f"chatcmpl-{hashlib.blake2b(body, digest_size=8).hexdigest()}",
            created=int(time.time()),
            model=self._name,
            prompt_tokens=size.total,
            choices=answer(request, size, self._window, limit),
        )

    async def _send_after_pause(
        self, completion: Completion, whole: Mapping[str, Any], send: Send
    ) -> None:
        """Send the answer at once, after the time that streaming its words would take."""
        for _ in completion.words():
            await self._sleep(self._pause_seconds)
        await send_json(send, 200, whole)

    async def _stream(self, completion: Completion, send: Send, *, include_usage: bool) -> None:
        """Send the answer word by word as server-sent events."""
        await send_head(send, 200, b"text/event-stream; charset=utf-8")
        for chunk in completion.opening():
            await send_event(send, orjson.dumps(chunk))
        for chunk in completion.words():
            await self._sleep(self._pause_seconds)
            await send_event(send, orjson.dumps(chunk))
        if include_usage:
            await send_event(send, orjson.dumps(completion.usage_chunk()))
        await send_event(send, b"[DONE]")
        await send({"type": "http.response.body", "body": b""})

    async def _stream_events(self, events: Iterable[Mapping[str, Any]], send: Send) -> None:
        """Send the events of another API than chat completions, with a pause before each word."""
        await send_head(send, 200, b"text/event-stream; charset=utf-8")
        for event in events:
            if "delta" in event:
                await self._sleep(self._pause_seconds)
            await send_event(send, orjson.dumps(event), event["type"].encode())
        await send({"type": "http.response.body", "body": b""})


def refuse_unknown_routes(method: str, path: str) -> None:
    """Raise DemoError for an unknown path or a wrong method."""
    if path not in METHODS:
        raise not_found("Not Found")
    if method != METHODS[path]:
        raise wrong_method()


async def live(receive: Receive, send: Send) -> None:
    """Confirm startup and shutdown; there is nothing to open or close."""
    while True:
        phase = (await receive())["type"]
        await send({"type": f"{phase}.complete"})
        if phase == "lifespan.shutdown":
            return


async def read_body(receive: Receive) -> bytes | None:
    """Return the request body, or None if the client disconnects before its end."""
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        body += event.get("body", b"")
        if not event.get("more_body", False):
            return bytes(body)


async def while_listening(answering: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Run the coroutine until it ends or the client disconnects."""
    async with asyncio.TaskGroup() as tasks:
        answer_task = tasks.create_task(answering)
        disconnect = tasks.create_task(wait_for_departure(receive))
        answer_task.add_done_callback(lambda _: disconnect.cancel())
        disconnect.add_done_callback(lambda _: answer_task.cancel())


async def wait_for_departure(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_json(send: Send, status: int, value: object) -> None:
    """Send a JSON response."""
    await send_whole(send, status, orjson.dumps(value), b"application/json")


async def send_whole(send: Send, status: int, body: bytes, kind: bytes = b"text/plain") -> None:
    """Send a response with its whole body."""
    await send_head(send, status, kind, (b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.body", "body": body})


async def send_head(send: Send, status: int, kind: bytes, *more: tuple[bytes, bytes]) -> None:
    """Send the status and the headers."""
    headers = [(b"content-type", kind), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def send_event(send: Send, payload: bytes, name: bytes = b"") -> None:
    """Send one server-sent event, with a name if it has one."""
    named = b"event: " + name + b"\n" if name else b""
    event = named + b"data: " + payload + b"\n\n"
    await send({"type": "http.response.body", "body": event, "more_body": True})
