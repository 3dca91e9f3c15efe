"""A model server with a window that speaks all three wires, counts its prompts and summarises."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_model import (
    DONE,
    Line,
    Received,
    answer_json,
    begin_stream,
    event,
    fake_model,
)
from tests.support.live import raw_client, running_proxy
from tests.support.meeting import Meeting
from tests.support.summary_model import overflow, tokenizer, written

Fields = dict[str, Any]
PROMPT_FIELDS = ("messages", "input", "system", "instructions", "tools")
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


def tokens_in(value: object) -> int:
    """Return the tokens of all texts in a part of a request."""
    if isinstance(value, dict):
        return 3 + sum(map(tokens_in, value.values()))
    if isinstance(value, list):
        return sum(map(tokens_in, value))
    return tokenizer().count(value) if isinstance(value, str) else 1


@dataclass
class WireModel:
    """A server's behaviour: the same short answer on every wire, and summaries when asked."""

    window: int = 4_096
    says: str = "Well."
    counts_tokens: bool = False
    bodies: list[tuple[str, Fields]] = field(default_factory=list)
    """What was asked, each with its path."""
    summaries: list[Fields] = field(default_factory=list)
    refusals: int = 0

    async def __call__(self, received: Received, line: Line) -> None:
        path = received.target.partition("?")[0]
        if received.method != "POST":
            card = {"id": "fake", "object": "model", "owned_by": "vllm"}
            cards = [{**card, "max_model_len": self.window}]
            await answer_json(line, {"object": "list", "data": cards})
            return
        body = json.loads(received.body)
        tokens = tokens_in({name: body[name] for name in PROMPT_FIELDS if name in body})
        if path.endswith("/count_tokens"):
            await self._count(path, body, tokens, line)
            return
        is_summary = received.header("x-chat-proxy-purpose") == "summary"
        if is_summary:
            self.summaries.append(body)
        else:
            self.bodies.append((path, body))
        if tokens >= self.window:
            self.refusals += 1
            await answer_json(line, overflow(self.window), 400)
            return
        text = summary_of(received.body) if is_summary else self.says
        await answer_on(path, line, text, tokens, streams=bool(body.get("stream")))

    async def _count(self, path: str, body: Fields, tokens: int, line: Line) -> None:
        self.bodies.append((path, body))
        if self.counts_tokens:
            await answer_json(line, {"input_tokens": tokens, "own": True})
        else:
            await answer_json(line, {"detail": "Not Found"}, 404)


def summary_of(body: bytes) -> str:
    """Return a summary with what `history_of` made a conversation say."""
    said = re.findall(r"(?:Question|Answer) \d+: [\w .?]{20,80}", body.decode())
    return written(list(dict.fromkeys(said))[:30] or ["Nothing was said."])


async def answer_on(path: str, line: Line, text: str, tokens: int, *, streams: bool) -> None:
    """Answer in the form of the wire that the path belongs to."""
    if path == PATHS["responses"]:
        document, events = responses_answer(text, tokens)
    elif path == PATHS["messages"]:
        document, events = messages_answer(text, tokens)
    else:
        document, events = chat_answer(text, tokens)
    if not streams:
        await answer_json(line, document)
        return
    await begin_stream(line)
    for piece in events:
        await line.chunk(piece)
    await line.chunk(b"")


def named(document: Fields) -> bytes:
    """A server-sent event that is named after its type."""
    return f"event: {document['type']}\n".encode() + event(document)


def chat_answer(text: str, tokens: int) -> tuple[Fields, list[bytes]]:
    """A completion, whole and as chunks."""
    head = {"id": "chatcmpl-1", "created": 1, "model": "fake"}
    usage = {"prompt_tokens": tokens, "completion_tokens": 6, "total_tokens": tokens + 6}
    said = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop"}
    chunk = {**head, "object": "chat.completion.chunk", "choices": [{**choice, "delta": said}]}
    document = {**head, "object": "chat.completion", "usage": usage}
    document["choices"] = [{**choice, "message": said}]
    return document, [event(chunk), event({**chunk, "choices": [], "usage": usage}), DONE]


def responses_answer(text: str, tokens: int) -> tuple[Fields, list[bytes]]:
    """A response, whole and as events."""
    part: Fields = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    usage = {"input_tokens": tokens, "output_tokens": 6, "total_tokens": tokens + 6}
    document: Fields = {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "fake",
    }
    document |= {"output": [{**item, "content": [part]}], "usage": usage}
    begun = {**document, "status": "in_progress", "output": [], "usage": None}
    return document, [
        named({"type": "response.created", "response": begun}),
        named({"type": "response.output_text.delta", "item_id": "msg_1", "delta": text}),
        named({"type": "response.completed", "response": document}),
    ]


def messages_answer(text: str, tokens: int) -> tuple[Fields, list[bytes]]:
    """A message, whole and as events."""
    usage = {"input_tokens": tokens, "output_tokens": 6}
    document: Fields = {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake"}
    document |= {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
    document["usage"] = usage
    begun = {**document, "content": [], "stop_reason": None}
    block = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": text}
    return document, [
        named({"type": "message_start", "message": begun}),
        named({"type": "content_block_start", "index": 0, "content_block": block}),
        named({"type": "content_block_delta", "index": 0, "delta": delta}),
        named({"type": "content_block_stop", "index": 0}),
        named({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}),
        named({"type": "message_stop"}),
    ]


def history_of(wire: str, turns: int, words: int = 60) -> Fields:
    """A conversation of this many turns in the form of a wire, as the fields of its body."""
    said: list[Fields] = []
    for turn in range(turns):
        said.append({"role": "user", "content": f"Question {turn}: " + "what about it? " * words})
        said.append({"role": "assistant", "content": f"Answer {turn}: " + "so it is. " * words})
    said.append({"role": "user", "content": "And now?"})
    if wire == "responses":
        return {"model": "fake", "instructions": "Be brief.", "input": [as_item(it) for it in said]}
    if wire == "messages":
        return {"model": "fake", "system": "Be brief.", "max_tokens": 300, "messages": said}
    return {"model": "fake", "messages": [{"role": "system", "content": "Be brief."}, *said]}


def as_item(message: Fields) -> Fields:
    """A message as an item of Responses."""
    kind = "output_text" if message["role"] == "assistant" else "input_text"
    content = [{"type": kind, "text": message["content"]}]
    return {"type": "message", "role": message["role"], "content": content}


def post(target: str, body: bytes, *headers: str) -> bytes:
    """A POST as raw bytes."""
    lines = [
        f"POST {target} HTTP/1.1",
        "host: proxy",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *headers,
        "",
        "",
    ]
    return "\r\n".join(lines).encode("latin-1") + body


@asynccontextmanager
async def wire_meeting(brain: WireModel, **sections: Any) -> AsyncIterator[Meeting]:
    """Let such a model, a proxy and a client meet."""
    async with (
        fake_model(brain) as model,
        running_proxy(model.url, **sections) as proxy,
        raw_client(proxy) as client,
    ):
        yield Meeting(model, proxy, client)
