"""How the scripted model reads and answers the Responses API: as the same chat."""

from collections.abc import Iterator

from bench.conversation.prompt import Json


def chat_fields(body: Json) -> Json:
    """Return a request of the Responses API as a chat request."""
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    instructions = body.get("instructions")
    system = [{"role": "system", "content": instructions}] if instructions else []
    fields: Json = {"model": body["model"], "messages": [*system, *map(_message, items)]}
    if body.get("tools"):
        fields["tools"] = body["tools"]
    if body.get("max_output_tokens"):
        fields["max_tokens"] = body["max_output_tokens"]
    return fields


def items_of(messages: list[Json]) -> list[Json]:
    """Return chat messages as items of the Responses API."""
    return [item for message in messages for item in _items(message)]


def response(model: str, number: int, text: str, usage: Json) -> Json:
    """Return an answer of the Responses API; `usage` is that of a chat answer."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": model,
        "output": [{**message, "status": "completed"}],
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": usage["prompt_tokens_details"],
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage["total_tokens"],
        },
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _message(item: Json) -> Json:
    """Return an item as a chat message."""
    match item.get("type"):
        case "function_call":
            function = {"name": item["name"], "arguments": item["arguments"]}
            call = {"id": item["call_id"], "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}
        case "function_call_output":
            output = {"tool_call_id": item["call_id"], "content": item["output"]}
            return {"role": "tool", **output}
        case _:
            return {"role": item["role"], "content": item["content"]}


def _items(message: Json) -> Iterator[Json]:
    if message["role"] == "tool":
        output = {"call_id": message["tool_call_id"], "output": message["content"]}
        yield {"type": "function_call_output", **output}
        return
    if message.get("content"):
        yield {"role": message["role"], "content": message["content"]}
    for call in message.get("tool_calls") or []:
        yield {"type": "function_call", "call_id": call["id"], **call["function"]}
