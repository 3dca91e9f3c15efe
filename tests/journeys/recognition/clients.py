"""What clients do to their own history between two requests."""

import json
from collections.abc import Callable, Sequence
from copy import deepcopy

from tests.journeys.summaries.talking import SYSTEM, prose
from tests.journeys.trimming.growing import CLEARED, step
from tests.unit.chat.shapes import Fields, says, system, user

Client = Callable[[list[Fields], int], list[Fields]]
"""Returns what is sent of a history with a request, given the request's number."""

TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]


def chat(requests: int, tokens: int = 400) -> list[list[Fields]]:
    """Return the history of a chat as it is with each request."""
    messages: list[Fields] = [SYSTEM]
    histories = []
    for number in range(requests):
        messages = [*messages, user(f"Question {number}: what does src/module_{number}.py do?")]
        histories.append(messages)
        messages = [*messages, says(prose(tokens, f"answer {number}"))]
    return histories


def agent(requests: int, tokens: int = 400, calls: int = 1) -> list[list[Fields]]:
    """Return the history of an agent's run as it is with each request."""
    messages: list[Fields] = [SYSTEM, user("Find out why tests/test_login.py fails.")]
    histories = []
    for number in range(requests):
        outputs = [prose(tokens // calls, f"file {number}.{call}") for call in range(calls)]
        caller, *results = step(str(number), *outputs)
        messages = [*messages, {**caller, "content": f"Step {number}: I look at it."}, *results]
        histories.append(messages)
    return histories


def appends_only(messages: list[Fields], _: int) -> list[Fields]:
    """Send everything as it is."""
    return messages


def clock_in_system_prompt(messages: list[Fields], number: int) -> list[Fields]:
    """Tell the time in the system prompt, as Open WebUI does."""
    told = system(f"{SYSTEM['content']} It is 12:{number // 60:02}:{number % 60:02}.")
    return [told, *messages[1:]]


def memories_in_second_system_message(messages: list[Fields], number: int) -> list[Fields]:
    """Put memories into a second system message, which is not always there."""
    told = [system(f"The user likes number {number}.")] if number % 3 else []
    return [messages[0], *told, *messages[1:]]


def new_call_ids(messages: list[Fields], number: int) -> list[Fields]:
    """Give every call a new id with each request, as bridges between wires do."""
    renamed = deepcopy(messages)
    for message in renamed:
        for call in message.get("tool_calls", ()):
            call["id"] = f"{number}-{call['id']}"
        if "tool_call_id" in message:
            message["tool_call_id"] = f"{number}-{message['tool_call_id']}"
    return renamed


def other_argument_order(messages: list[Fields], number: int) -> list[Fields]:
    """Write arguments in another order and with other spaces each time."""
    rewritten = deepcopy(messages)
    for message in rewritten:
        for call in message.get("tool_calls", ()):
            arguments = {"limit": 99, **json.loads(call["function"]["arguments"])}
            pairs = list(arguments.items())[:: 1 if number % 2 else -1]
            call["function"]["arguments"] = json.dumps(dict(pairs), indent=number % 3 or None)
    return rewritten


def prunes_old_outputs(messages: list[Fields], _: int) -> list[Fields]:
    """Replace two of three results behind the last eight by a placeholder, as opencode does."""
    places = [at for at, message in enumerate(messages) if message["role"] == "tool"]
    old = {at for number, at in enumerate(places[:-8]) if number % 3}
    return [
        {**message, "content": CLEARED} if at in old else message
        for at, message in enumerate(messages)
    ]


def environment_in_newest_message(messages: list[Fields], number: int) -> list[Fields]:
    """Add details to the newest user message, which are gone with the next request."""
    details = f"<environment_details>\nTime: {number}\n</environment_details>"
    newest = max(at for at, message in enumerate(messages) if message["role"] == "user")
    told = {**messages[newest], "content": f"{messages[newest]['content']}\n\n{details}"}
    return [*messages[:newest], told, *messages[newest + 1 :]]


def reminder_in_newest_result(messages: list[Fields], _: int) -> list[Fields]:
    """Append a reminder to the newest result, which is gone with the next request."""
    reminder = "\n<system-reminder>The todo list is empty.</system-reminder>"
    return [*messages[:-1], {**messages[-1], "content": messages[-1]["content"] + reminder}]


def moving_cache_marks(messages: list[Fields], _: int) -> list[Fields]:
    """Mark the last two messages, in parts of their own form."""
    marked = [_marked(message) for message in messages[-2:]]
    return [*messages[:-2], *marked]


def other_forms_of_contents(messages: list[Fields], number: int) -> list[Fields]:
    """Send parts instead of a text, null fields, and reasoning in the newest answer only."""
    changed = [
        {**message, "content": [{"type": "text", "text": message["content"]}], "refusal": None}
        if (at + number) % 2 and message["role"] != "tool"
        else message
        for at, message in enumerate(messages)
    ]
    answers = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    for newest in answers[-1:]:
        changed[newest] = {**changed[newest], "reasoning_content": "Let me think."}
    return changed


def last_messages(count: int) -> Client:
    """Return a client that sends its last messages only, beginning with a user message."""

    def send(messages: list[Fields], _: int) -> list[Fields]:
        rest = messages[1:][-count:]
        first = next(at for at, message in enumerate(rest) if message["role"] == "user")
        return [messages[0], *rest[first:]]

    return send


def task_and_last_messages(count: int) -> Client:
    """Return a client that sends its task and its last messages, results without calls too."""

    def send(messages: list[Fields], _: int) -> list[Fields]:
        return [*messages[:2], *messages[2:][-count:]]

    return send


def _marked(message: Fields) -> Fields:
    content: object = message["content"]
    mark = {"type": "ephemeral"}
    if isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": content, "cache_control": mark}]}
    return {**message, "cache_control": mark}


def has_fold(messages: Sequence[Fields]) -> bool:
    """Return whether a prompt contains a fold of earlier messages."""
    return any("[chat-proxy checkpoint " in str(message.get("content")) for message in messages)
