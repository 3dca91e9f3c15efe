"""A model server that plays a script on all three wires: texts and calls, whole or in pieces."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_model import DONE, Line, Received, answer_json, begin_stream, event
from tests.support.strict_template import complaints
from tests.support.summary_model import overflow, written
from tests.support.wire_model import PATHS, PROMPT_FIELDS, named, tokens_in
from tests.support.wires.messages_rules import messages_violations
from tests.support.wires.responses_rules import responses_violations

Fields = dict[str, Any]
RECALL = "chat_proxy_recall"


@dataclass(frozen=True)
class Says:
    """A text in an answer."""

    text: str


@dataclass(frozen=True)
class Calls:
    """A call in an answer; its arguments may be a text that is no JSON."""

    tool: str
    arguments: Fields | str
    id: str = "call_1"

    @property
    def written(self) -> str:
        """The arguments as a text."""
        return self.arguments if type(self.arguments) is str else json.dumps(self.arguments)


@dataclass(frozen=True)
class Thinks:
    """A thought in an answer, signed where the API does so."""

    text: str


@dataclass(frozen=True)
class IsCut:
    """The end of an answer that has reached its longest length."""


@dataclass(frozen=True)
class Breaks:
    """The end of an answer whose connection breaks before it is complete."""


Answer = Sequence[Says | Calls | Thinks | IsCut | Breaks]


def recall(number: int, call: str = "call_r", **arguments: Any) -> Calls:
    """A call of the recall tool for one message."""
    return Calls(RECALL, {"id": f"r{number}", **arguments}, call)


@dataclass
class ScriptedModel:
    """Answers each request by the next entry of its script, then by a plain word."""

    script: list[Answer] = field(default_factory=list)
    window: int = 6_000
    bodies: list[Fields] = field(default_factory=list)
    """What was asked, without summaries."""
    asked_for_summaries: list[Fields] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    """The rules of the API that an accepted prompt has broken."""
    summary: Sequence[str] = ("The user works on a parser.",)
    refuses: str = ""
    """A text that makes a prompt too long, wherever it stands."""

    async def __call__(self, received: Received, line: Line) -> None:
        path = received.target.partition("?")[0]
        if received.method != "POST":
            card = {"id": "fake", "object": "model", "owned_by": "vllm"}
            await answer_json(line, {"data": [{**card, "max_model_len": self.window}]})
            return
        body = json.loads(received.body)
        tokens = tokens_in({name: body[name] for name in PROMPT_FIELDS if name in body})
        if received.header("x-chat-proxy-purpose") == "summary":
            self.asked_for_summaries.append(body)
            answer: Answer = [Says(written(list(self.summary)))]
        elif tokens >= self.window or (self.refuses and self.refuses.encode() in received.body):
            self.bodies.append(body)
            await answer_json(line, overflow(self.window), 400)
            return
        else:
            self.bodies.append(body)
            self.violations += violations_of(path, body)
            answer = self.script.pop(0) if self.script else [Says("Well.")]
        await answer_by(path, line, answer, tokens, streams=bool(body.get("stream")))


def violations_of(path: str, body: Fields) -> list[str]:
    """Return the rules of its API that a prompt breaks."""
    if path == PATHS["responses"]:
        return responses_violations(body)
    if path == PATHS["messages"]:
        return messages_violations(body)
    return complaints(body["messages"], allow_user_after_tools=True)


async def answer_by(path: str, line: Line, answer: Answer, tokens: int, *, streams: bool) -> None:
    """Answer in the form of the wire that the path belongs to."""
    if path == PATHS["responses"]:
        document, events = responses_form(answer, tokens)
    elif path == PATHS["messages"]:
        document, events = messages_form(answer, tokens)
    else:
        document, events = chat_form(answer, tokens)
    breaks = any(isinstance(part, Breaks) for part in answer)
    if not streams and breaks:
        await line.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
        await line.send(b'content-length: 900\r\n\r\n{"id": ')
        line.reset()
        return
    if not streams:
        await answer_json(line, document)
        return
    await begin_stream(line)
    for piece in events[: len(events) // 2] if breaks else events:
        await line.chunk(piece)
    if breaks:
        line.reset()
        return
    await line.chunk(b"")


def pieces(text: str) -> Iterator[str]:
    """Yield a text in two pieces."""
    yield text[: len(text) // 2]
    yield text[len(text) // 2 :]


def chat_form(answer: Answer, tokens: int) -> tuple[Fields, list[bytes]]:
    """A completion, whole and as chunks."""
    head: Fields = {"id": f"chatcmpl-{tokens}", "created": 1, "model": "fake"}
    usage = {"prompt_tokens": tokens, "completion_tokens": 6, "total_tokens": tokens + 6}
    calls = [part for part in answer if isinstance(part, Calls)]
    text = "".join(part.text for part in answer if isinstance(part, Says))
    reason = "length" if IsCut() in answer else "tool_calls" if calls else "stop"
    thoughts = "".join(part.text for part in answer if isinstance(part, Thinks))
    deltas: list[Fields] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": thoughts}] if thoughts else []
    deltas += [{"content": piece} for piece in pieces(text) if piece]
    native = []
    for index, call in enumerate(calls):
        arguments = call.written
        function = {"name": call.tool, "arguments": arguments}
        native.append({"id": call.id, "type": "function", "function": function})
        first = {"index": index, "id": call.id, "type": "function", "function": {"name": call.tool}}
        deltas.append({"tool_calls": [first]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in pieces(arguments)
        ]
    message: Fields = {"role": "assistant", "content": text or None}
    message |= {"tool_calls": native} if native else {}
    message |= {"reasoning_content": thoughts} if thoughts else {}
    chunk = {**head, "object": "chat.completion.chunk"}
    choices: list[Fields] = [{"index": 0, "delta": it, "finish_reason": None} for it in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    events = [event({**chunk, "choices": [choice]}) for choice in choices]
    events += [event({**chunk, "choices": [], "usage": usage}), DONE]
    tokens_of_text = [{"token": word, "logprob": -0.1, "top_logprobs": []} for word in text.split()]
    choice = {"index": 0, "message": message, "finish_reason": reason}
    choice |= {"logprobs": {"content": tokens_of_text, "refusal": None}}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}, events


def messages_form(answer: Answer, tokens: int) -> tuple[Fields, list[bytes]]:
    """A message, whole and as events."""
    content: list[Fields] = []
    events: list[Fields] = []
    parts = [part for part in answer if isinstance(part, (Says, Calls, Thinks))]
    for index, part in enumerate(parts):
        if isinstance(part, Thinks):
            block = {"type": "thinking", "thinking": part.text, "signature": f"signed {tokens}"}
            content.append(block)
            begun: Fields = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": part.text},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        elif isinstance(part, Says):
            content.append({"type": "text", "text": part.text})
            begun = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": it} for it in pieces(part.text)]
        else:
            block = {"type": "tool_use", "id": part.id, "name": part.tool}
            content.append({**block, "input": part.arguments})
            begun = {**block, "input": {}}
            deltas = [
                {"type": "input_json_delta", "partial_json": it} for it in pieces(part.written)
            ]
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        events += [{"type": "content_block_delta", "index": index, "delta": it} for it in deltas]
        events.append({"type": "content_block_stop", "index": index})
    reason = "tool_use" if any(isinstance(it, Calls) for it in answer) else "end_turn"
    reason = "max_tokens" if IsCut() in answer else reason
    usage = {"input_tokens": tokens, "output_tokens": 6}
    document: Fields = {"id": f"msg_{tokens}", "type": "message", "role": "assistant"}
    document |= {"model": "fake", "content": content, "stop_reason": reason}
    document |= {"stop_sequence": None, "usage": usage}
    start = {**document, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 0}}
    ending = {"stop_reason": reason, "stop_sequence": None}
    events = [
        {"type": "message_start", "message": start},
        *events,
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 6}},
        {"type": "message_stop"},
    ]
    return document, [named(it) for it in events]


def responses_form(answer: Answer, tokens: int) -> tuple[Fields, list[bytes]]:
    """A response, whole and as events."""
    output: list[Fields] = []
    events: list[Fields] = []
    parts = [part for part in answer if isinstance(part, (Says, Calls, Thinks))]
    for index, part in enumerate(parts):
        item, inside = _item_of(part, f"item_{tokens}_{index}")
        output.append(item)
        begun: Fields = {**item, "status": "in_progress"}
        begun |= {"content": []} if isinstance(part, Says) else {}
        begun |= {"arguments": ""} if isinstance(part, Calls) else {}
        place = {"output_index": index, "item_id": item["id"]}
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        events += [{**it, **place} for it in inside]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 6,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + 6,
    }
    document: Fields = {
        "id": f"resp_{tokens}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "fake",
        "output": output,
        "parallel_tool_calls": True,
        "tools": [],
        "tool_choice": "auto",
        "temperature": None,
        "top_p": None,
        "usage": usage,
    }
    begun = {**document, "status": "in_progress", "output": [], "usage": None}
    if IsCut() in answer:
        cut = {"reason": "max_output_tokens"}
        document |= {"status": "incomplete", "incomplete_details": cut}
    events = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        *events,
        {"type": f"response.{document['status']}", "response": document},
    ]
    return document, [named({**it, "sequence_number": at}) for at, it in enumerate(events)]


def _item_of(part: Says | Calls | Thinks, name: str) -> tuple[Fields, list[Fields]]:
    """An output item, and the events between its begin and its end."""
    if isinstance(part, Thinks):
        return {
            "type": "reasoning",
            "id": name,
            "summary": [],
            "encrypted_content": f"sealed {part.text}",
        }, []
    if isinstance(part, Calls):
        arguments = part.written
        item = {"type": "function_call", "id": name, "call_id": part.id, "name": part.tool}
        item |= {"arguments": arguments, "status": "completed"}
        kind = "response.function_call_arguments"
        inside: list[Fields] = [{"type": f"{kind}.delta", "delta": it} for it in pieces(arguments)]
        return item, [*inside, {"type": f"{kind}.done", "arguments": arguments, "name": part.tool}]
    content: Fields = {"type": "output_text", "text": part.text, "annotations": [], "logprobs": []}
    item = {"type": "message", "id": name, "role": "assistant", "status": "completed"}
    empty = {**content, "text": ""}
    place: Fields = {"content_index": 0}
    inside = [{"type": "response.content_part.added", **place, "part": empty}]
    inside += [
        {"type": "response.output_text.delta", **place, "delta": it, "logprobs": []}
        for it in pieces(part.text)
    ]
    inside += [
        {"type": "response.output_text.done", **place, "text": part.text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": content},
    ]
    return {**item, "content": [content]}, inside
