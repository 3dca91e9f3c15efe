"""Clients that write tool calls and results down otherwise, or take old results away."""

import json
from collections.abc import Callable

from bench.clients.histories import Messages, seeded
from bench.conversation.prompt import Json

Change = Callable[[str], str]

REMOVED_READ = (
    "[[NOTE] This file read has been removed to save space in the context window. Refer to the "
    "latest file read for the most up to date version of this file.]"
)
CLEARED = "[Old tool result content cleared]"
PRUNES_EVERY = 6
KEPT_CHARS = 45_000
"""The newest results up to so many characters are not pruned."""


def new_ids(messages: Messages, number: int) -> Messages:
    """Return the messages with other call ids than at any request before."""

    def renamed(name: str) -> str:
        return f"toolu_{seeded(number, name).randbytes(9).hex()}"

    return [_with_ids(message, renamed) for message in messages]


def _with_ids(message: Json, renamed: Change) -> Json:
    if message["role"] == "tool":
        return {**message, "tool_call_id": renamed(message["tool_call_id"])}
    if calls := message.get("tool_calls"):
        return {**message, "tool_calls": [{**it, "id": renamed(it["id"])} for it in calls]}
    return message


def argument_order(messages: Messages, number: int) -> Messages:
    """Return the messages with the arguments of each call in another order at each request."""

    def shuffled(arguments: str) -> str:
        items = list(json.loads(arguments).items())
        seeded(number, arguments).shuffle(items)
        return json.dumps(dict(items))

    return [_with_arguments(message, shuffled) for message in messages]


def older_arguments_compact(messages: Messages, number: int) -> Messages:  # noqa: ARG001
    """Return the messages with the arguments of earlier turns written without spaces.

    The client wrote them to its database when the turn was over, and reads them from there.
    """

    def compact(arguments: str) -> str:
        return json.dumps(json.loads(arguments), separators=(",", ":"))

    last = max(at for at, it in enumerate(messages) if it["role"] == "user")
    older = [_with_arguments(message, compact) for message in messages[:last]]
    return [*older, *messages[last:]]


def _with_arguments(message: Json, change: Change) -> Json:
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [_with_changed(call, change) for call in calls]}


def _with_changed(call: Json, change: Change) -> Json:
    function = call["function"]
    return {**call, "function": {**function, "arguments": change(function["arguments"])}}


def outdated_reads(messages: Messages, number: int) -> Messages:  # noqa: ARG001
    """Return the messages with Cline's note in place of each read whose file was read again."""
    paths = {
        call["id"]: json.loads(call["function"]["arguments"])["path"]
        for message in messages
        for call in message.get("tool_calls") or []
        if call["function"]["name"] == "read_file"
    }
    newest = {path: name for name, path in paths.items()}
    outdated = set(paths) - set(newest.values())
    return [
        {**it, "content": REMOVED_READ} if it.get("tool_call_id") in outdated else it
        for it in messages
    ]


def prunes_old_outputs(messages: Messages, number: int) -> Messages:
    """Return the messages with opencode's placeholder for old results.

    The client prunes now and then, not at each request, and what it pruned stays so.
    """
    requests = [at for at, it in enumerate(messages) if it["role"] == "assistant"]
    pruned_at = number // PRUNES_EVERY * PRUNES_EVERY
    known = requests[pruned_at] if pruned_at < len(requests) else len(messages)
    room = KEPT_CHARS
    pruned = list(messages)
    for at in range(known - 1, -1, -1):
        if messages[at]["role"] == "tool":
            room -= len(messages[at]["content"])
            if room < 0:
                pruned[at] = {**messages[at], "content": CLEARED}
    return pruned
