"""The detail of one chat for the dashboard: what compaction did to each message."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import orjson

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.proxy.reporting.detail.prompt_parts import parts_after, parts_before
from chat_proxy.proxy.reporting.stage_effects import versions_of
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult, unchanged_result
from chat_proxy.proxy.sizing.measure import TokenCount
from chat_proxy.telemetry.chat_history import DETAIL_BYTES
from chat_proxy.telemetry.printable import without_surrogates

FIRST = 20
LAST = 130
TEXT_CHARS = 1_000
ALL_CHARS = 40_000
NAMES = 5
NAME_CHARS = 64

Document = dict[str, Any]


class RecordedChat(NamedTuple):
    """What a chat's detail is made from, kept on its record until the answer has been sent."""

    compaction: CompactionRequest
    result: CompactionResult | None
    """What was sent; None for an unchanged request."""


def detail_of(chat: RecordedChat, *, show_text: bool) -> bytes:
    """Return the request before and after as JSON: its structure, and its text if that is shown."""
    compaction = chat.compaction
    outcome = chat.result or unchanged_result(compaction)
    chars = min(TEXT_CHARS, ALL_CHARS // max(1, 2 * len(shown(len(compaction.conversation)))))
    detail = orjson.dumps(document_of(compaction, outcome, chars if show_text else 0))
    if len(detail) > DETAIL_BYTES:
        detail = orjson.dumps(document_of(compaction, outcome, 0))
    return detail if len(detail) <= DETAIL_BYTES else b""


def document_of(compaction: CompactionRequest, outcome: CompactionResult, chars: int) -> Document:
    """Return the messages before and after, and the stages; without a change `after` is None."""
    before, after = compaction.conversation, outcome.conversation
    stages_by_origin = stages_by_message(before, outcome)
    left = frozenset(after.origins) if stages_by_origin else None
    token_count = compaction.measured.token_count
    message_before = partial(detail_before, before, token_count, stages_by_origin, left, chars)
    message_after = partial(detail_after, after, outcome.token_count, stages_by_origin, chars)
    is_same = after is before
    budget = compaction.measured.budget
    reasons = reasons_by_message(outcome)
    return {
        "before": [message_before(index) | reasons.get(index, {}) for index in shown(len(before))],
        "after": None if is_same else [message_after(index) for index in shown(len(after))],
        "messages": [len(before), len(after)],
        "stages": stages_of(before, outcome),
        "window": budget.window if budget else None,
        "parts": [
            parts_before(before, token_count, stages_by_origin, left, budget),
            parts_after(after, outcome.token_count, stages_by_origin, budget),
        ],
        "trigger": budget.trigger if budget else None,
        "plan": plan_of(outcome),
        "unfit": outcome.unfit,
        "shows_text": chars > 0,
    }


def shown(count: int) -> Sequence[int]:
    """Return the indexes of the messages that are shown: all, or the first few and the last."""
    if count <= FIRST + LAST:
        return range(count)
    return [*range(FIRST), *range(count - LAST, count)]


def stages_by_message(
    before: Conversation, outcome: CompactionResult
) -> dict[int | None, list[str]]:
    """Return the stages that changed or dropped a message, by its index in the client's list."""
    stages_by_origin: dict[int | None, list[str]] = {}
    versions = versions_of(before)
    for step in outcome.steps:
        later = versions_of(step.conversation)
        for origin, fields in versions.items():
            if origin is not None and later.get(origin) is not fields:
                stages_by_origin.setdefault(origin, []).append(step.stage)
        versions = later
    return stages_by_origin


def stages_of(before: Conversation, outcome: CompactionResult) -> list[Document]:
    """Return each stage that changed something, with the message counts before and after it."""
    lengths = [len(before), *(len(step.conversation) for step in outcome.steps)]
    return [
        {"stage": step.stage, "messages": lengths[index : index + 2]}
        for index, step in enumerate(outcome.steps)
    ]


def plan_of(outcome: CompactionResult) -> Document | None:
    """Return the form and the sizes of the plan that a request was compacted by."""
    plan = outcome.plan
    if plan is None:
        return None
    return {"form": plan.form, "target": plan.target, "limit": plan.limit}


def reasons_by_message(outcome: CompactionResult) -> dict[int, Document]:
    """Return why the plan treated messages as it did, by their index in the client's list."""
    groups = outcome.plan.groups if outcome.plan else ()
    return {
        index: {"reason": f"{group.treatment}: {group.reason}"}
        for group in groups
        for index in range(group.start, group.end)
    }


def detail_before(
    conversation: Conversation,
    token_count: TokenCount,
    stages_by_origin: dict[int | None, list[str]],
    left: frozenset[int | None] | None,
    chars: int,
    index: int,
) -> Document:
    """Return one of the client's messages, and what the stages did to it."""
    stages = stages_by_origin.get(index, [])
    is_left = left is None or index in left
    change = "dropped" if not is_left else "changed" if stages else "kept"
    message = message_detail(conversation.fields[index], tokens_at(token_count, index), chars)
    message.update(index=index, change=change, stages=stages)
    return message


def detail_after(
    conversation: Conversation,
    token_count: TokenCount,
    stages_by_origin: dict[int | None, list[str]],
    chars: int,
    index: int,
) -> Document:
    """Return one message that was sent, and its index in the client's list."""
    origin = conversation.origins[index]
    change = "added" if origin is None else "changed" if origin in stages_by_origin else "kept"
    # The text of an unchanged message is already among those before.
    shown_chars = chars if change != "kept" else 0
    message = message_detail(conversation.fields[index], tokens_at(token_count, index), shown_chars)
    message.update(index=origin, change=change)
    return message


def tokens_at(token_count: TokenCount, index: int) -> int:
    """Return one message's tokens; computing all would be wasted, as only a few are shown."""
    return ceil(token_count.counted.message_tokens(index) * token_count.ratio)


def message_detail(fields: dict[str, Any], tokens: int, chars: int) -> Document:
    """Return a message's structure, and the first `chars` characters of its text."""
    message = Message(fields)
    entry: Document = {"role": without_surrogates(message.role[:NAME_CHARS]), "tokens": tokens}
    if ("tool_calls" in fields or message.is_tool_result) and (tools := tools_of(message)):
        entry["tools"] = tools
    if type(message.content) is not str and (media := media_of(message)):
        entry["media"] = media
    if chars:
        text = "\n".join(text for _, text in message.pieces())
        entry["text"] = without_surrogates(text[:chars])
        entry["is_cut"] = len(text) > chars
    return entry


def media_of(message: Message) -> dict[str, int]:
    """Return the number of media of each type in a message."""
    return dict(Counter(medium.mime for medium in message.media()).most_common(NAMES))


def tools_of(message: Message) -> list[str]:
    """Return the names of the tools that a message calls, or of the one that it is a result of."""
    calls = message.fields.get("tool_calls")
    some = calls[:NAMES] if type(calls) is list else []
    functions = [call.get("function") for call in some if type(call) is dict]
    if message.is_tool_result:
        functions.append(message.fields)
    names = [each.get("name") for each in functions if type(each) is dict]
    return [without_surrogates(name[:NAME_CHARS]) for name in names if type(name) is str and name]
