"""Recorded runs of an agent with tools, in tau-bench's format, and what must be known of them.

The recordings have no questions. Two kinds are asked for: what the user said in a message (its
names, numbers and dates), and what the agent did, with the arguments of each call that changes
something. What an agent only looked up can be looked up again.
"""

from collections.abc import Iterator
from typing import Any

from bench.conversation.prompt import Json
from bench.quality.recordings.session import Question, Session, closed

STOP = "###STOP###"
_LOOKS_UP = ("get_", "search_", "find_", "list_", "calculate", "think", "transfer_")
_OPEN_SCHEMA: Json = {"type": "object", "additionalProperties": True}


def trajectory(fields: dict[str, Any]) -> Session:
    """Return one run; its calls have no definitions in the recording, so that theirs are open."""
    messages = list(_with_own_ids([_plain(message) for message in fields["traj"]]))
    texts: dict[str, str] = {}
    message_of: dict[str, int] = {}
    for index, message in enumerate(messages):
        for number, text in enumerate(_worth_knowing(message)):
            texts[f"{index}.{number}"] = text
            message_of[f"{index}.{number}"] = index
    questions = [Question(f"What is known of {key}?", (key,)) for key in texts]
    names = dict.fromkeys(call["function"]["name"] for it in messages for call in _calls(it))
    tools = [
        {"type": "function", "function": {"name": it, "parameters": _OPEN_SCHEMA}} for it in names
    ]
    closed(messages)
    return Session(f"task {fields['task_id']}", messages, texts, message_of, questions, tools)


def _plain(message: Json) -> Json:
    """Return a message without the mark by which a simulated user ends a run."""
    content = message.get("content")
    if message["role"] == "user" and isinstance(content, str):
        return {**message, "content": content.replace(STOP, "").strip() or "Thank you."}
    return message


def _with_own_ids(messages: list[Json]) -> Iterator[Json]:
    """Yield the messages with an id for each call: recordings use some twice, which is refused."""
    newest: dict[str, str] = {}
    for index, message in enumerate(messages):
        if calls := _calls(message):
            own = {call["id"]: f"call_{index}_{at}" for at, call in enumerate(calls)}
            newest |= own
            yield {**message, "tool_calls": [{**it, "id": own[it["id"]]} for it in calls]}
        elif message["role"] == "tool":
            given = message["tool_call_id"]
            yield {**message, "tool_call_id": newest.get(given, given)}
        else:
            yield message


def _worth_knowing(message: Json) -> Iterator[str]:
    """Yield what a user said with a number or a code in it, and the arguments of what was done."""
    content = message.get("content") or ""
    if message["role"] == "user" and any(map(str.isdigit, content)):
        yield content
    for call in _calls(message):
        function = call["function"]
        if not function["name"].startswith(_LOOKS_UP):
            yield f"{function['name']} {function['arguments']}"


def _calls(message: Json) -> list[Json]:
    return message.get("tool_calls") or []
