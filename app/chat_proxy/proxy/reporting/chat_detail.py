"""What became of each message of one request, small enough to be kept for the operator's page."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import Any

import orjson

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.compaction.pipeline import Failure, attempt
from chat_proxy.proxy.reporting.conversation_name import name_of
from chat_proxy.proxy.reporting.stage_effects import versions_of
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult, unchanged_result
from chat_proxy.proxy.sizing.measure import TokenCount
from chat_proxy.telemetry.chat_history import DETAIL_BYTES, printable
from chat_proxy.telemetry.logs import log_exception
from chat_proxy.telemetry.record import RequestRecord

FIRST = 20
LAST = 130
TEXT_CHARS = 1_000
ALL_CHARS = 40_000
NAMES = 5
NAME_CHARS = 64

Told = dict[str, Any]


def detail_of(
    compaction: CompactionRequest, outcome: CompactionResult, *, show_text: bool
) -> bytes:
    """Return the request before and after as JSON: its structure, and its text only if asked."""
    chars = min(TEXT_CHARS, ALL_CHARS // max(1, 2 * len(shown(len(compaction.conversation)))))
    told = orjson.dumps(document_of(compaction, outcome, chars if show_text else 0))
    if len(told) > DETAIL_BYTES:
        told = orjson.dumps(document_of(compaction, outcome, 0))
    return told if len(told) <= DETAIL_BYTES else b""


def document_of(compaction: CompactionRequest, outcome: CompactionResult, chars: int) -> Told:
    """Return the messages before and after, and what each stage did; nothing changed, no after."""
    before, after = compaction.conversation, outcome.conversation
    hands = hands_on(before, outcome)
    left = frozenset(after.origins) if hands else None
    token_count = compaction.measured.token_count
    message_before = partial(told_before, before, token_count, hands, left, chars)
    message_after = partial(told_after, after, outcome.token_count, hands, chars)
    is_same = after is before
    budget = compaction.measured.budget
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


def hands_on(before: Conversation, outcome: CompactionResult) -> dict[int | None, list[str]]:
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


def stages_of(before: Conversation, outcome: CompactionResult) -> list[Told]:
    """Return each stage that changed something with the messages before and behind it."""
    lengths = [len(before), *(len(step.conversation) for step in outcome.steps)]
    return [
        {"stage": step.stage, "messages": lengths[index : index + 2]}
        for index, step in enumerate(outcome.steps)
    ]


def told_before(
    conversation: Conversation,
    token_count: TokenCount,
    hands: dict[int | None, list[str]],
    left: frozenset[int | None] | None,
    chars: int,
    index: int,
) -> Told:
    """Return one of the client's messages and what happened to it."""
    stages = hands.get(index, [])
    is_left = left is None or index in left
    change = "dropped" if not is_left else "changed" if stages else "kept"
    told = told_message(conversation.fields[index], tokens_at(token_count, index), chars)
    told.update(index=index, change=change, stages=stages)
    return told


def told_after(
    conversation: Conversation,
    token_count: TokenCount,
    hands: dict[int | None, list[str]],
    chars: int,
    index: int,
) -> Told:
    """Return one message that was sent, and where it comes from."""
    origin = conversation.origins[index]
    change = "added" if origin is None else "changed" if origin in hands else "kept"
    # What was kept has its text on the other side already.
    shown_chars = chars if change != "kept" else 0
    told = told_message(conversation.fields[index], tokens_at(token_count, index), shown_chars)
    told.update(index=origin, change=change)
    return told


def tokens_at(token_count: TokenCount, index: int) -> int:
    """Return one message's tokens; of all of them at once only a few would be shown."""
    return ceil(token_count.counted.messages[index] * token_count.ratio)


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


def record_detail(
    compaction: CompactionRequest,
    outcome: CompactionResult | None,
    record: RequestRecord,
    services: Services,
) -> None:
    """Note what became of a chat, if anything did; one that cannot be told goes on all the same.

    Under load a chat that begins and ends has only its figures told, and no name.
    """
    chat_log = services.chat_log
    if not chat_log.is_kept:
        return
    # A replay tells of the same chat again, and the first form is not what was sent.
    is_detailed = bool(record.detail) or chat_log.takes_detail()
    if is_detailed or compaction.conversation.beginning.messages:
        noted = attempt("dashboard", _note, compaction, outcome, record, services, is_detailed)
        if isinstance(noted, Failure):
            log_exception("request could not be told to the dashboard", noted.error)


def _note(
    compaction: CompactionRequest,
    outcome: CompactionResult | None,
    record: RequestRecord,
    services: Services,
    is_detailed: bool,
) -> None:
    if not record.conversation:
        record.conversation = name_of(compaction.conversation, compaction.tenant, services.store)
    if is_detailed:
        told = outcome or unchanged_result(compaction)
        record.detail = detail_of(compaction, told, show_text=services.chat_log.shows_text)
