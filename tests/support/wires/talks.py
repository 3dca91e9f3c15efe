"""Conversations of agents, written as each API's clients write them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from hypothesis import strategies as st

Fields = dict[str, Any]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
SYSTEM = "You are a careful agent. Never touch the vault."
REMINDER = "<system-reminder>Be brief.</system-reminder>"
KINDS = ("function", "custom", "shell", "local_shell", "apply_patch", "computer")
"""The kinds of calls; on Messages, which has one kind, all but computers are the same."""


@dataclass(frozen=True)
class Step:
    """What the model did, and what came of it: calls with results, or words and a question."""

    calls: tuple[str, ...] = ()
    size: int = 200
    thinks: bool = False
    says: bool = False
    has_image: bool = False
    reminds: bool = False
    steers: bool = False
    """Whether the user says something while tools run."""
    searches: bool = False
    """Whether a tool of the server ran in between."""


STEPS = st.builds(
    Step,
    calls=st.lists(st.sampled_from(KINDS), max_size=3).map(tuple),
    size=st.sampled_from([10, 200, 900, 4_000]),
    thinks=st.booleans(),
    says=st.booleans(),
    has_image=st.sampled_from([False, False, True]),
    reminds=st.sampled_from([False, False, True]),
    steers=st.sampled_from([False, False, False, True]),
    searches=st.sampled_from([False, False, True]),
)


def words(size: int, name: object) -> str:
    """Return about so many characters, unlike those of any other name."""
    lines = (f"Line {at} of {name}: value_{at * 7 % 101} in src/{name}.py" for at in count())
    return "\n".join(next(lines) for _ in range(max(1, size // 45)))


def messages_body(steps: Sequence[Step], **fields: Any) -> Fields:
    """Return the request of a client of Messages after these steps."""
    opening: list[Fields] = [{"type": "text", "text": REMINDER}, _text("Look after the loader.")]
    messages: list[Fields] = [{"role": "user", "content": opening}]
    messages.append({"role": "system", "content": "The date is fixed."})
    for number, step in enumerate(steps):
        messages.append({"role": "assistant", "content": list(_said(number, step))})
        messages.append({"role": "user", "content": list(_answered(number, step))})
        if step.reminds and not step.calls:
            messages.append({"role": "system", "content": f"Reminder {number}."})
    last = messages[-1] if messages[-1]["role"] == "user" else messages[-2]
    last["content"][-1]["cache_control"] = {"type": "ephemeral"}
    system = [_text(SYSTEM), {**_text("Tools are fine."), "cache_control": {"type": "ephemeral"}}]
    head = {"model": "fake", "max_tokens": 1_000, "system": system, "tools": [_TOOL]}
    return {**head, "messages": messages, **fields}


_TOOL = {"name": "run", "description": "Run it", "input_schema": {"type": "object"}}


def _text(words_of_it: str) -> Fields:
    return {"type": "text", "text": words_of_it}


def _image() -> Fields:
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    return {"type": "image", "source": source}


def _said(number: int, step: Step) -> Iterator[Fields]:
    if step.thinks:
        yield {"type": "thinking", "thinking": f"Hm {number}.", "signature": f"sig-{number}=="}
        yield {"type": "redacted_thinking", "data": f"sealed-{number}"}
    if step.searches:
        used = f"srvtoolu_{number}"
        query = {"query": f"q{number}"}
        yield {"type": "server_tool_use", "id": used, "name": "web_search", "input": query}
        found = {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "e=="}
        yield {"type": "web_search_tool_result", "tool_use_id": used, "content": [found]}
    if step.says or not step.calls:
        yield _text(words(step.size // 2, f"answer {number}"))
    for at, kind in enumerate(step.calls):
        arguments = {"path": f"src/{number}_{at}.py", "how": words(step.size // 3, f"way {number}")}
        yield {"type": "tool_use", "id": f"toolu_{number}_{at}", "name": kind, "input": arguments}


def _answered(number: int, step: Step) -> Iterator[Fields]:
    for at, kind in enumerate(step.calls):
        told = words(step.size, f"result {number} {at}")
        content: Any = told
        if kind == "computer" or (step.has_image and at == 0):
            content = [_text(told), _image()]
        yield {"type": "tool_result", "tool_use_id": f"toolu_{number}_{at}", "content": content}
    if not step.calls:
        if step.has_image:
            yield _image()
        yield _text(words(step.size // 2, f"question {number}"))
    if step.calls and step.reminds:
        yield _text(REMINDER)
    if step.calls and step.steers:
        yield _text(f"And mind the tests, {number}.")


def responses_body(steps: Sequence[Step], **fields: Any) -> Fields:
    """Return the request of a client of Responses after these steps."""
    items: list[Fields] = [
        _message("developer", "input_text", SYSTEM),
        _message("user", "input_text", "Look after the loader."),
    ]
    for number, step in enumerate(steps):
        items += _spoken(number, step)
        items += [_call(f"{number}_{at}", kind, step) for at, kind in enumerate(step.calls)]
        for at, kind in enumerate(step.calls):
            items.append(_output(f"{number}_{at}", kind, step))
        if not step.calls:
            items.append(_message("user", "input_text", words(step.size // 2, f"q {number}")))
            if step.has_image:
                items[-1]["content"].append(_input_image())
        if step.calls and step.steers:
            items.append(_message("user", "input_text", f"And mind the tests, {number}."))
        if step.reminds:
            items.append(_message("developer", "input_text", f"Reminder {number}."))
    tools = [{"type": "function", "name": "run", "parameters": {"type": "object"}}]
    head = {"model": "fake", "store": False, "instructions": "Be kind.", "tools": tools}
    return {**head, "input": items, **fields}


def _message(role: str, kind: str, text: str) -> Fields:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _input_image() -> Fields:
    return {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"}


def _spoken(number: int, step: Step) -> Iterator[Fields]:
    if step.thinks:
        summary = [{"type": "summary_text", "text": f"Hm {number}."}]
        sealed = f"sealed-{number}"
        item = {"type": "reasoning", "id": f"rs_{number}", "summary": summary}
        yield {**item, "encrypted_content": sealed}
    if step.searches:
        action = {"type": "search", "query": f"q{number}"}
        done = {"id": f"ws_{number}", "status": "completed"}
        yield {"type": "web_search_call", **done, "action": action}
    if step.says or not step.calls:
        said = _message("assistant", "output_text", words(step.size // 2, f"answer {number}"))
        said["content"][0]["annotations"] = []
        yield {**said, "id": f"msg_{number}", "status": "completed"}


_ARGUMENTS: dict[str, Callable[[str], Fields]] = {
    "function": lambda how: {"name": "run", "arguments": f'{{"how": "{how[:2000]!r}"}}'},
    "custom": lambda how: {"name": "edit", "input": how},
    "shell": lambda how: {"action": {"commands": [how], "timeout_ms": 1}},
    "local_shell": lambda how: {"action": {"type": "exec", "command": ["cat", how], "env": {}}},
    "apply_patch": lambda how: {"operation": {"type": "update_file", "path": "a", "diff": how}},
    "computer": lambda _: {"action": {"type": "screenshot"}, "pending_safety_checks": []},
}


def _type_of(kind: str) -> str:
    return "custom_tool_call" if kind == "custom" else f"{kind}_call"


def _call(name: str, kind: str, step: Step) -> Fields:
    how = words(step.size // 3, f"way {name}")
    item = {"type": _type_of(kind), "id": f"it_{name}", "call_id": f"call_{name}"}
    return {**item, "status": "completed", **_ARGUMENTS[kind](how)}


def _output(name: str, kind: str, step: Step) -> Fields:
    told = words(step.size, f"result {name}")
    item: Fields = {"type": f"{_type_of(kind)}_output", "call_id": f"call_{name}"}
    if kind == "computer":
        return {**item, "output": {**_input_image(), "type": "computer_screenshot"}}
    if kind == "shell":
        outcome = {"type": "exit", "exit_code": 0}
        return {**item, "output": [{"stdout": told, "stderr": "warned", "outcome": outcome}]}
    if kind == "local_shell":
        item["id"] = f"call_{name}"
    if kind == "apply_patch":
        return {**item, "status": "completed", "output": told}
    if kind == "function" and step.has_image:
        return {**item, "output": [{"type": "input_text", "text": told}, _input_image()]}
    return {**item, "output": told}
