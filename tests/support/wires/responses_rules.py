"""What the Responses API asks of a request whose whole history is in it."""

from collections.abc import Iterator
from typing import Any

Fields = dict[str, Any]

_PARTS = {
    "user": ("input_text", "input_image", "input_file"),
    "system": ("input_text", "input_image", "input_file"),
    "developer": ("input_text", "input_image", "input_file"),
    "assistant": ("output_text", "refusal"),
}
_CALLS: dict[str, dict[str, type]] = {
    "function_call": {"name": str, "arguments": str},
    "custom_tool_call": {"name": str, "input": str},
    "local_shell_call": {"action": dict},
    "shell_call": {"action": dict},
    "apply_patch_call": {"operation": dict},
    "computer_call": {"action": dict},
}
_LISTS = ("function_call_output", "custom_tool_call_output")
_ALONE: dict[str, dict[str, type]] = {
    "web_search_call": {"id": str},
    "file_search_call": {"id": str},
    "code_interpreter_call": {"id": str},
    "mcp_call": {"id": str, "name": str, "arguments": str},
    "mcp_list_tools": {"tools": list},
    "compaction": {"encrypted_content": str},
    "reasoning": {"summary": list},
}


def responses_violations(body: Fields) -> list[str]:
    """Return every rule that a request breaks; an accepted one breaks none."""
    most = body.get("max_output_tokens", 16)
    found = [] if type(most) is int and most >= 16 else [f"max_output_tokens is {most!r}"]
    given = body.get("input")
    if type(given) is str:
        return found if given else [*found, "the input is empty"]
    if type(given) is not list or not given:
        return [*found, "input is neither a text nor items"]
    return [
        *found,
        *(wrong for at, item in enumerate(given) for wrong in _item(at, item)),
        *_pairs(given),
        *_reasoning(given),
    ]


def kind_of(item: Fields) -> str:
    """Return the type of an item, which messages may leave out."""
    return str(item.get("type") or ("message" if "role" in item else ""))


def _item(at: int, item: Fields) -> Iterator[str]:
    kind = kind_of(item)
    if kind == "message":
        yield from (f"input.{at}: {wrong}" for wrong in _message(item))
    elif kind.endswith("_output"):
        yield from (f"input.{at}: {wrong}" for wrong in _output(kind, item))
    elif wanted := _CALLS.get(kind) or _ALONE.get(kind):
        for key, of_type in wanted.items():
            if type(item.get(key)) is not of_type:
                yield f"input.{at}: {kind} with {key} {item.get(key)!r:.80}"
    else:
        yield f"input.{at}: an item of type {kind!r}"


def _message(item: Fields) -> Iterator[str]:
    role, content = item.get("role"), item.get("content")
    if role not in _PARTS:
        yield f"role {role!r}"
        return
    if type(content) is str:
        if not content:
            yield "an empty message"
        return
    if type(content) is not list or not content:
        yield "a message without content"
        return
    for part in content:
        if type(part) is not dict or part.get("type") not in _PARTS[role]:
            yield f"a part {part!r:.80} of the {role}"
        elif part["type"].endswith("_text") and not part.get("text"):
            yield "an empty text part"


def _output(kind: str, item: Fields) -> Iterator[str]:
    output = item.get("output")
    if kind == "computer_call_output":
        if type(output) is not dict or output.get("type") != "computer_screenshot":
            yield "a screenshot that is none"
        elif not (output.get("image_url") or output.get("file_id")):
            yield "a screenshot without an image"
    elif kind == "shell_call_output":
        keys = {"stdout", "stderr", "outcome"}
        if type(output) is not list or any(not keys <= entry.keys() for entry in output):
            yield f"the output of a shell {output!r:.80}"
    elif kind == "apply_patch_call_output":
        if item.get("status") not in ("completed", "failed"):
            yield "a patch without a status"
        if type(output) not in (str, type(None)):
            yield "the output of a patch is no text"
    elif type(output) is list and kind in _LISTS:
        for part in output:
            if part.get("type") not in _PARTS["user"]:
                yield f"a part {part!r:.80} in an output"
    elif type(output) is not str:
        yield f"{kind} with output {output!r:.80}"


def _pairs(items: list[Fields]) -> Iterator[str]:
    open_calls: dict[str, str] = {}
    for at, item in enumerate(items):
        kind = kind_of(item)
        call_id = str(item.get("call_id"))
        if kind in _CALLS:
            if call_id in open_calls:
                yield f"input.{at}: a second call {call_id}"
            open_calls[call_id] = kind
        elif kind.endswith("_output") and open_calls.pop(call_id, None) != kind[: -len("_output")]:
            yield f"input.{at}: no tool call found for {kind} {call_id}"
    if open_calls:
        yield f"no tool output found for {sorted(open_calls)}"


def _reasoning(items: list[Fields]) -> Iterator[str]:
    """A reasoning item belongs to what the model said or did next."""
    for at, item in enumerate(items):
        if kind_of(item) == "reasoning":
            after = items[at + 1] if at + 1 < len(items) else {}
            is_own = after.get("role") == "assistant" or (
                kind_of(after) not in ("message", "") and not kind_of(after).endswith("_output")
            )
            if not is_own:
                yield f"input.{at}: reasoning without its required following item"
