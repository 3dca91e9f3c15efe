"""The explanation of a request: its tokens, structure, budget, and what would be done to it."""

import asyncio
from typing import Any

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.recall.references import reference
from chat_proxy.proxy.compacting.decide import decide
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.compacting.trim import trim
from chat_proxy.proxy.reporting.image_effects import images_of
from chat_proxy.proxy.reporting.stage_effects import with_outcome
from chat_proxy.proxy.session.output import recalls, with_fitting_output
from chat_proxy.proxy.session.request import (
    CompactionRequest,
    CompactionResult,
    unchanged_result,
)
from chat_proxy.proxy.sizing.measure import Measured
from chat_proxy.proxy.sizing.request_counter import RequestCounter
from chat_proxy.proxy.sizing.tokenizers import Tokenizers
from chat_proxy.tokens.counter import RequestCount, count_request
from chat_proxy.tokens.scripts import Scripts, by_script
from chat_proxy.tokens.token_counter import TokenCounter
from chat_proxy.tokens.tools import tools_tokens
from chat_proxy.wires.body import has_stored_history, wire_of

KINDS = (
    "text",
    "reasoning",
    "tool_calls",
    "tool_results",
    "tools",
    "images",
    "documents",
    "audio",
    "video",
    "overhead",
)


async def explain(compaction: CompactionRequest, services: CompactionServices) -> dict[str, Any]:
    """Return what would be done to a request, which must be a dry run; nothing is sent."""
    measured, request = compaction.measured, compaction.request
    counter = services.tokenizers.of(measured.rules, request.salt)
    outcome = await outcome_of(compaction, services)
    document = await asyncio.to_thread(explanation, request, measured, counter)
    after = await tokens_after_stages(compaction, outcome, services.tokenizers)
    images = await asyncio.to_thread(images_of, measured, outcome)
    return with_outcome(document, measured, outcome, after) | {
        "images": images,
        "recall": recall_of(compaction, outcome),
        "mode": compaction.policy.mode,
        "client_compaction": outcome.client or None,
    }


def recall_of(compaction: CompactionRequest, outcome: CompactionResult) -> dict[str, Any]:
    """Return what the model could ask for: ids of folded messages and of shortened ones."""
    if not recalls(compaction, outcome):
        return {"offered": False}
    client, sent, checkpoint = compaction.conversation, outcome.conversation, outcome.checkpoint
    missing = checkpoint.missing if checkpoint else 0
    shown = frozenset(sent.origins)
    until = checkpoint.folded_until if checkpoint else 0
    folded = [at for at in range(client.instructions, until) if at not in shown]
    shortened = [
        origin
        for origin, fields in zip(sent.origins, sent.fields, strict=True)
        if origin is not None and fields is not client.fields[origin]
    ]
    return {
        "offered": True,
        "folded": [reference(at + missing) for at in (*folded[:1], *folded[-1:])],
        "shortened": [reference(at + missing) for at in shortened],
        "history": outcome.history_id,
    }


async def outcome_of(
    compaction: CompactionRequest, services: CompactionServices
) -> CompactionResult:
    """Return what would be sent; a history that nobody here can see is never changed."""
    if has_stored_history(compaction.request):
        return unchanged_result(compaction)._replace(label="off")
    outcome = await decide(compaction, await trim(compaction, services), services)
    return with_fitting_output(compaction, outcome)


async def tokens_after_stages(
    compaction: CompactionRequest, outcome: CompactionResult, tokenizers: Tokenizers
) -> list[int]:
    """Return the request's tokens after each stage that changed it."""
    request_counter = RequestCounter(compaction.request, compaction.measured, tokenizers)
    return [
        (await request_counter.count_conversation(step.conversation)).tokens
        for step in outcome.steps
    ]


def explanation(request: ChatRequest, measured: Measured, counter: TokenCounter) -> dict[str, Any]:
    """Return tokens by message and kind, the conversation's structure, window and budget."""
    return {
        "model": request.model,
        "wire": wire_of(request).name,
        "tokens": tokens_of(measured),
        "window": window_of(measured),
        "budget": budget_of(measured),
        "messages": messages_of(measured, counter),
        "tools": tools_of(request, measured, counter),
        **structure_of(measured.conversation),
    }


def tokens_of(measured: Measured) -> dict[str, Any]:
    """Return the request's tokens as counted, and as this upstream would count them."""
    return {
        "total": measured.tokens,
        "counted": measured.counted.total,
        "by_kind": by_kind(measured.counted),
        "by_script": by_class(measured.counted),
        "encoding": measured.rules.encoding,
        "single_digits": measured.rules.single_digits,
        "image_family": measured.rules.image_family,
        "is_guess": measured.counted.is_guess,
        "calibration": calibration_of(measured),
    }


def calibration_of(measured: Measured) -> dict[str, Any]:
    """Return the learned factors: of scripts only those that the request has.

    `engine_vocabulary` is the one that the engine's own tokenizer shows, if we know it.
    """
    calibration, present = measured.calibration, by_class(measured.counted)
    return {
        "vocabulary": measured.rules.vocabulary,
        **({"engine_vocabulary": calibration.vocabulary} if calibration.vocabulary else {}),
        **{
            kind: round(cost, 4)
            for kind, cost in calibration.factors._asdict().items()
            if kind in present or kind not in Scripts._fields
        },
        "lessons": calibration.lessons,
    }


def by_class(count: RequestCount) -> dict[str, int]:
    """Return the tokens of each script class, without classes that have none."""
    classes = zip(Scripts._fields, by_script(count.scripts, count.words), strict=True)
    return {name: tokens for name, tokens in classes if tokens}


def by_kind(count: RequestCount) -> dict[str, int]:
    """Return the tokens of each kind, without kinds that have none."""
    return {kind: tokens for kind in KINDS if (tokens := getattr(count, kind))}


def window_of(measured: Measured) -> dict[str, Any] | None:
    """Return the window and its source, and the limit of the prompt alone if there is one."""
    window = measured.window
    if window is None:
        return None
    document = {"tokens": window.tokens, "source": window.source}
    return document | ({"input_limit": window.input_limit} if window.input_limit else {})


def budget_of(measured: Measured) -> dict[str, int | bool] | None:
    """Return the budget, and whether the request is over its trigger."""
    budget = measured.budget
    if budget is None:
        return None
    return {
        "usable": budget.usable,
        "reserve": budget.reserve,
        "trigger": budget.trigger,
        "prepare": budget.prepare,
        "is_over_trigger": measured.tokens >= budget.trigger,
    }


def messages_of(measured: Measured, counter: TokenCounter) -> list[dict[str, Any]]:
    """Return every message with its tokens by kind, its turn and its group."""
    conversation = measured.conversation
    turns = {n: i for i, turn in enumerate(conversation.turns) for n in range(turn.start, turn.end)}
    groups = {n: i for i, group in enumerate(conversation.groups) for n in range(*group)}
    documents = []
    for index, message in enumerate(conversation.messages):
        count = count_request([message], None, counter, measured.rules)
        overhead = count.overhead - measured.rules.reply_tokens
        documents.append(
            {
                "index": index,
                "role": message.role,
                "tokens": measured.counted.message_tokens(index),
                "by_kind": by_kind(count) | {"overhead": overhead},
                "turn": turns.get(index),
                "group": groups[index],
            }
        )
    return documents


def tools_of(
    request: ChatRequest, measured: Measured, counter: TokenCounter
) -> list[dict[str, Any]]:
    """Return every tool definition with its tokens, in the current or the legacy form."""
    tools = request.fields.get("tools") or request.fields.get("functions")
    if not isinstance(tools, list):
        return []
    style = measured.rules.tools_style
    empty = tools_tokens([{}], counter, style)
    return [
        {"name": tool_name(tool), "tokens": max(0, tools_tokens([tool], counter, style) - empty)}
        for tool in tools
    ]


def tool_name(tool: object) -> str:
    """Return a tool's name, empty if it has none."""
    fields = tool if isinstance(tool, dict) else {}
    function = fields.get("function")
    name = (function if isinstance(function, dict) else fields).get("name")
    return name if isinstance(name, str) else ""


def structure_of(conversation: Conversation) -> dict[str, Any]:
    """Return turns, groups and seams."""
    return {
        "turns": [
            {"start": turn.start, "end": turn.end, "users": list(turn.users)}
            for turn in conversation.turns
        ],
        "groups": [[group.start, group.end] for group in conversation.groups],
        "seams": list(conversation.seams),
    }
