"""What became of each message of one request, small enough to be kept for the operator's page."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import Any

import orjson

from app.chat.conversation import Conversation
from app.chat.message import Message
from app.proxy.case import Case, Outcome
from app.proxy.explain_outcome import versions_of
from app.proxy.measure import Weight
from app.telemetry.history import DETAIL_BYTES, printable

FIRST = 20
LAST = 130
TEXT_CHARS = 1_000
ALL_CHARS = 40_000
NAMES = 5
NAME_CHARS = 64

Told = dict[str, Any]


def detail_of(case: Case, outcome: Outcome, *, show_text: bool) -> bytes:
    """Return the request before and after as JSON: its structure, and its text only if asked."""
    chars = min(TEXT_CHARS, ALL_CHARS // max(1, 2 * len(shown(len(case.conversation)))))
    told = orjson.dumps(document_of(case, outcome, chars if show_text else 0))
    if len(told) > DETAIL_BYTES:
        told = orjson.dumps(document_of(case, outcome, 0))
    return told if len(told) <= DETAIL_BYTES else b""


def document_of(case: Case, outcome: Outcome, chars: int) -> Told:
    """Return the messages before and after, and what each stage did; nothing changed, no after."""
    before, after = case.conversation, outcome.conversation
    hands = hands_on(before, outcome)
    left = frozenset(after.origins) if hands else None
    weight = case.measured.weight
    message_before = partial(told_before, before, weight, hands, left, chars)
    message_after = partial(told_after, after, outcome.weight, hands, chars)
    is_same = after is before
    budget = case.measured.budget
    return {
        "before": [message_before(index) for index in shown(len(before))],
        "after": None if is_same else [message_after(index) for index in shown(len(after))],
        "messages": [len(before), len(after)],
        "stages": stages_of(before, outcome),
        "trigger": budget.trigger if budget else None,
        "shows_text": chars > 0,
    }


def shown(count: int) -> Sequence[int]:
    """Return the places that are told: all, or the first few and the last."""
    if count <= FIRST + LAST:
        return range(count)
    return [*range(FIRST), *range(count - LAST, count)]


def hands_on(before: Conversation, outcome: Outcome) -> dict[int | None, list[str]]:
    """Return for each of the client's messages the stages that changed or dropped it."""
    hands: dict[int | None, list[str]] = {}
    versions = versions_of(before)
    for step in outcome.steps:
        later = versions_of(step.conversation)
        for origin, fields in versions.items():
            if origin is not None and later.get(origin) is not fields:
                hands.setdefault(origin, []).append(step.stage)
        versions = later
    return hands


def stages_of(before: Conversation, outcome: Outcome) -> list[Told]:
    """Return each stage that changed something with the messages before and behind it."""
    lengths = [len(before), *(len(step.conversation) for step in outcome.steps)]
    return [
        {"stage": step.stage, "messages": lengths[index : index + 2]}
        for index, step in enumerate(outcome.steps)
    ]


def told_before(
    conversation: Conversation,
    weight: Weight,
    hands: dict[int | None, list[str]],
    left: frozenset[int | None] | None,
    chars: int,
    index: int,
) -> Told:
    """Return one of the client's messages and what happened to it."""
    stages = hands.get(index, [])
    is_left = left is None or index in left
    change = "dropped" if not is_left else "changed" if stages else "kept"
    told = told_message(conversation.fields[index], tokens_at(weight, index), chars)
    told.update(index=index, change=change, stages=stages)
    return told


def told_after(
    conversation: Conversation,
    weight: Weight,
    hands: dict[int | None, list[str]],
    chars: int,
    index: int,
) -> Told:
    """Return one message that was sent, and where it comes from."""
    origin = conversation.origins[index]
    change = "added" if origin is None else "changed" if origin in hands else "kept"
    # What was kept has its text on the other side already.
    shown_chars = chars if change != "kept" else 0
    told = told_message(conversation.fields[index], tokens_at(weight, index), shown_chars)
    told.update(index=origin, change=change)
    return told


def tokens_at(weight: Weight, index: int) -> int:
    """Return one message's tokens; of all of them at once only a few would be shown."""
    return ceil(weight.counted.messages[index] * weight.ratio)


def told_message(fields: dict[str, Any], tokens: int, chars: int) -> Told:
    """Return a message's structure, and the beginning of its text if any is asked for."""
    message = Message(fields)
    told: Told = {"role": printable(message.role[:NAME_CHARS]), "tokens": tokens}
    if ("tool_calls" in fields or message.is_tool_result) and (tools := tools_of(message)):
        told["tools"] = tools
    if type(message.content) is not str and (media := media_of(message)):
        told["media"] = media
    if chars:
        text = "\n".join(text for _, text in message.pieces())
        told["text"] = printable(text[:chars])
        told["is_cut"] = len(text) > chars
    return told


def media_of(message: Message) -> dict[str, int]:
    """Return how many media of which type a message has."""
    return dict(Counter(medium.mime for medium in message.media()).most_common(NAMES))


def tools_of(message: Message) -> list[str]:
    """Return the names of the tools that a message calls, or of the one that it answers for."""
    calls = message.fields.get("tool_calls")
    some = calls[:NAMES] if type(calls) is list else []
    functions = [call.get("function") for call in some if type(call) is dict]
    if message.is_tool_result:
        functions.append(message.fields)
    names = [each.get("name") for each in functions if type(each) is dict]
    return [printable(name[:NAME_CHARS]) for name in names if type(name) is str and name]
