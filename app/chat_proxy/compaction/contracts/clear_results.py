"""Clear old tool uses as a client asks for it; what was cleared before stays cleared.

Only the decision is made here. It is one of the treatments that a checkpoint keeps: a result, or
the arguments of a call, of which nothing may be left (`CLEARED`).
"""

from collections.abc import Iterator
from typing import NamedTuple

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.chat.texts import call_parts
from chat_proxy.compaction.ageing.treatments import CLEARED, Place, Treatments
from chat_proxy.wires.contracts.contract import ClearResults


class ToolUse(NamedTuple):
    """A call and its result."""

    result: Place
    call: Place | None
    """None if the history does not have the call."""
    tool: str


def tool_uses(conversation: Conversation, folded_until: int = 0) -> list[ToolUse]:
    """Return the tool uses behind the folded messages, in the order of their results."""
    calls: dict[str, tuple[Place, str]] = {}
    found = []
    for message, origin in zip(conversation.messages, conversation.origins, strict=True):
        if origin is None or origin < folded_until:
            continue
        calls.update(_calls_of(message, origin))
        if message.is_tool_result:
            call, tool = calls.get(message.answers or "", (None, ""))
            found.append(ToolUse(Place(origin), call, tool))
    return found


def _calls_of(message: Message, origin: int) -> Iterator[tuple[str, tuple[Place, str]]]:
    """Yield the id of each call of a message, with its place and tool."""
    calls = message.fields.get("tool_calls") if message.is_assistant else None
    for number, call in enumerate(calls if type(calls) is list else ()):
        if type(call) is dict and type(call.get("id")) is str:
            tool, _ = call_parts(call.get("function"))
            yield call["id"], (Place(origin, number), tool)


def is_cleared(use: ToolUse, treatments: Treatments) -> bool:
    """Return whether the result of a use was cleared by a client's wish."""
    return treatments.short.get(use.result) == CLEARED


def clearing_due(
    uses: list[ToolUse], tokens: int, before: Treatments, wish: ClearResults
) -> Treatments | None:
    """Return what is cleared now, None if the trigger is not exceeded or nothing is left to clear.

    `tokens` is the size of the prompt as it was cleared before. So a history that was cleared is
    sent with the same prefix until it has grown over the trigger again.
    """
    if not _is_triggered(uses, tokens, before, wish):
        return None
    older = uses[: -wish.keep] if wish.keep else uses
    due = [use for use in older if _is_due(use, before, wish)]
    if not due:
        return None
    calls = {use.call: CLEARED for use in due if use.call is not None and _clears_call(use, wish)}
    return Treatments(short={use.result: CLEARED for use in due}, calls=calls)


def _is_triggered(uses: list[ToolUse], tokens: int, before: Treatments, wish: ClearResults) -> bool:
    if wish.trigger_results is None:
        return tokens > (wish.trigger_tokens or 0)
    if not any(is_cleared(use, before) for use in uses):
        return len(uses) > wish.trigger_results
    # What is never cleared would exceed the trigger for ever: it counts the first time only.
    left = [use for use in uses if _is_due(use, before, wish)]
    return len(left) > wish.trigger_results


def _is_due(use: ToolUse, before: Treatments, wish: ClearResults) -> bool:
    return use.tool not in wish.excluded_tools and not is_cleared(use, before)


def _clears_call(use: ToolUse, wish: ClearResults) -> bool:
    if type(wish.clears_calls) is bool:
        return wish.clears_calls
    return use.tool in wish.clears_calls
