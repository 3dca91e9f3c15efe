"""What Responses and Messages refuse: calls without results, empty or odd parts."""

from collections.abc import Iterator
from typing import Any

Fields = dict[str, Any]
SAID = ("output_text", "refusal")
ASKED = ("input_text", "input_image", "input_file")


def complaints_about(body: Fields) -> list[str]:
    """Return what an API would say against a request."""
    if "input" in body:
        return list(_about_items(body["input"])) if isinstance(body["input"], list) else []
    return [*_about_limits(body), *_about_messages(body["messages"])]


def _about_items(items: list[Fields]) -> Iterator[str]:
    calls: set[str] = set()
    for index, item in enumerate(items):
        kind = item.get("type") or "message"
        if kind.endswith("_call") and "call_id" in item:
            calls.add(item["call_id"])
        elif kind.endswith("_output"):
            if item["call_id"] not in calls:
                yield f"item {index}: a result without its call"
            calls.discard(item["call_id"])
        elif kind == "message":
            yield from _about_content(index, item)
    if calls:
        yield f"{len(calls)} calls without a result"


def _about_content(index: int, item: Fields) -> Iterator[str]:
    content = item["content"]
    if not content:
        yield f"item {index}: no content"
    allowed = SAID if item["role"] == "assistant" else ASKED
    for part in content if isinstance(content, list) else ():
        if part.get("type") not in allowed:
            yield f"item {index}: {part.get('type')} in a message of the {item['role']}"


def _about_limits(body: Fields) -> Iterator[str]:
    most, thinking = body.get("max_tokens", 0), body.get("thinking") or {}
    if not most:
        yield "no max_tokens"
    if thinking.get("type") == "enabled" and thinking.get("budget_tokens", 0) >= most:
        yield "budget_tokens is not less than max_tokens"


def _about_messages(messages: list[Fields]) -> Iterator[str]:
    waiting: set[str] = set()
    spoken = [it for it in messages if it["role"] != "system"]
    if not spoken or spoken[0]["role"] != "user":
        yield "the first message is not the user's"
    for index, message in enumerate(spoken):
        blocks = _blocks(message)
        if not blocks or any(it.get("type") == "text" and not it["text"] for it in blocks):
            yield f"message {index}: empty content"
        results = {it["tool_use_id"] for it in blocks if it.get("type") == "tool_result"}
        if results - waiting:
            yield f"message {index}: a result without its call"
        if waiting - results:
            yield f"message {index}: a call without its result"
        waiting = {it["id"] for it in blocks if it.get("type") == "tool_use"}
    if waiting:
        yield "the last calls have no results"


def _blocks(message: Fields) -> list[Fields]:
    content = message["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]
