"""What the Messages API asks of a request, as far as a request alone can show it."""

from collections.abc import Iterator
from typing import Any

Fields = dict[str, Any]

LEAST_THINKING = 1_024
MOST_CACHE_MARKS = 4
_USER = {"text", "image", "document", "tool_result", "search_result", "container_upload"}
_SERVER_RESULTS = {
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "mcp_tool_result",
}
_SERVER_CALLS = {"server_tool_use", "mcp_tool_use"}
_ASSISTANT = {
    *("text", "thinking", "redacted_thinking", "tool_use", "compaction"),
    *_SERVER_CALLS,
    *_SERVER_RESULTS,
}
_ALLOWED = {"user": _USER, "assistant": _ASSISTANT, "system": {"text"}}
_IN_RESULTS = {"text", "image", "document", "search_result"}
_TEXTS = {
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name"),
    "tool_result": ("tool_use_id",),
}


def messages_violations(body: Fields) -> list[str]:
    """Return every rule that a request breaks; an accepted one breaks none."""
    messages = body.get("messages")
    if type(messages) is not list or not messages:
        return ["messages is not a list with something in it"]
    return [
        *_limits(body),
        *_marks(body),
        *(found for at, message in enumerate(messages) for found in _message(at, message)),
        *_order(messages),
        *_pairs(messages),
    ]


def blocks_of(message: Fields) -> list[Any]:
    """Return the content blocks of a message; a text is one."""
    content = message.get("content")
    return content if type(content) is list else [{"type": "text", "text": content}]


def _limits(body: Fields) -> Iterator[str]:
    most = body.get("max_tokens")
    if type(most) is not int or most < 1:
        yield f"max_tokens is {most!r}"
        return
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        budget = thinking.get("budget_tokens")
        if type(budget) is not int or not LEAST_THINKING <= budget < most:
            yield f"a budget of {budget!r} for thinking with max_tokens {most}"
    system = body.get("system")
    for block in system if type(system) is list else ():
        if block.get("type") != "text" or not block.get("text"):
            yield "system has a block that is no text"


def _marks(value: Any, key: str = "") -> Iterator[str]:
    marks = _count_marks(value)
    if marks > MOST_CACHE_MARKS:
        yield f"{marks} cache marks"


def _count_marks(value: Any) -> int:
    if type(value) is list:
        return sum(map(_count_marks, value))
    if type(value) is not dict:
        return 0
    own = value.get("cache_control") is not None
    return own + sum(_count_marks(each) for key, each in value.items() if key != "cache_control")


def _message(at: int, message: Fields) -> Iterator[str]:
    role = message.get("role")
    if role not in _ALLOWED:
        yield f"messages.{at}: role {role!r}"
        return
    blocks = blocks_of(message)
    if not blocks:
        yield f"messages.{at}: content is empty"
    for block in blocks:
        if type(block) is not dict or block.get("type") not in _ALLOWED[role]:
            yield f"messages.{at}: a block {block!r:.80} of the {role}"
        else:
            yield from (f"messages.{at}: {found}" for found in _block(block))


def _block(block: Fields) -> Iterator[str]:
    kind = block["type"]
    if kind == "text" and (type(block.get("text")) is not str or not block["text"].strip()):
        yield "an empty text block"
    for key in _TEXTS.get(kind, ()):
        if type(block.get(key)) is not str or (not block[key] and key != "thinking"):
            yield f"{kind} without {key}"
    if kind in ("thinking", "redacted_thinking") and "cache_control" in block:
        yield "a cache mark on thinking"
    if kind == "tool_use" and type(block.get("input")) is not dict:
        yield "the input of a call is no object"
    if kind == "tool_result":
        content = block.get("content")
        for part in content if type(content) is list else ():
            if type(part) is not dict or part.get("type") not in _IN_RESULTS:
                yield f"a part {part!r:.80} in a result"
            elif part["type"] == "text" and not part.get("text"):
                yield "an empty text block in a result"
        if content is not None and type(content) not in (str, list):
            yield "the content of a result is neither text nor blocks"


def _order(messages: list[Fields]) -> Iterator[str]:
    """The user begins, and the two alternate: the API joins others, strict templates do not."""
    roles = [message.get("role") for message in messages if message.get("role") != "system"]
    if not roles or roles[0] != "user":
        yield "the first message is not the user's"
    for at in range(1, len(roles)):
        if roles[at] == roles[at - 1]:
            yield f"two messages of the {roles[at]} in a row"


def _pairs(messages: list[Fields]) -> Iterator[str]:
    spoken = [message for message in messages if message.get("role") != "system"]
    called: list[str] = []
    for at, message in enumerate(spoken):
        blocks = [block for block in blocks_of(message) if type(block) is dict]
        results = [block.get("tool_use_id") for block in blocks if block["type"] == "tool_result"]
        if sorted(map(str, results)) != sorted(called):
            yield f"message {at}: results of {results} behind calls {called}"
        kinds = [block["type"] for block in blocks]
        if "tool_result" in kinds[len(results) :]:
            yield f"message {at}: a result behind other blocks"
        yield from _server_pairs(blocks)
        called = [str(block.get("id")) for block in blocks if block["type"] == "tool_use"]
    if called:
        yield f"calls without results: {called}"


def _server_pairs(blocks: list[Fields]) -> Iterator[str]:
    calls = [block.get("id") for block in blocks if block["type"] in _SERVER_CALLS]
    results = [block.get("tool_use_id") for block in blocks if block["type"] in _SERVER_RESULTS]
    if calls != results:
        yield f"server tools {calls} with results of {results}"
