"""Overflow replay: after a refusal for length, learn the limit and send a smaller request."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.body.splice import serialise_messages
from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.drop_media import without_current_media, without_older_media
from chat_proxy.compaction.pipeline import Step
from chat_proxy.compaction.stages.stage import StageContext
from chat_proxy.compaction.stages.truncate_tool_output import (
    TruncateToolOutput,
    TruncateToolOutputPolicy,
)
from chat_proxy.proxy.compacting.decide import decide
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.compacting.trim import trim
from chat_proxy.proxy.session.request import (
    CompactionRequest,
    CompactionResult,
    body_of,
    references,
)
from chat_proxy.proxy.sizing.context_window import Window
from chat_proxy.proxy.sizing.measure import Sizing, measured_in
from chat_proxy.proxy.sizing.request_counter import RequestCounter
from chat_proxy.upstream.overflow import Overflow

MAX_REPLAYS = 2
MAX_MEDIA_STEPS = 8
REPLAY = "replay"
CLIP_OUTPUT = "clip_output"
UNKNOWN_EXCESS = 1.15
"""The assumed ratio of a prompt to its limit when the upstream does not report it."""
MIN_ANSWER_TOKENS = 16
RESULT_BYTES = (16_000, 8_000, 4_000, 2_000, 1_000, 500, 250)
"""The sizes that tool results are cut to as a last resort, step by step."""
RESULTS_SHARE = 0.9
"""The share of the available tokens that a prompt with cut results may use: it is estimated."""
OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens")


class Sent(NamedTuple):
    """A request as it was sent."""

    compaction: CompactionRequest
    outcome: CompactionResult
    body: bytes
    replays: int = 0
    output: Mapping[str, int] = MappingProxyType({})
    """The output fields that were lowered below what the client asked for."""


async def learn_from(sent: Sent, overflow: Overflow, sizing: Sizing) -> None:
    """Learn the limit and the upstream's own count of the prompt, for all later requests."""
    compaction = sent.compaction
    if await asyncio.to_thread(is_echo, compaction.request, overflow):
        return
    base_url, model = compaction.route.base_url, compaction.route.model
    if not is_doubtful(sent, overflow):
        sizing.learned_windows.learn(base_url, model, overflow)
    if overflow.prompt_tokens is not None and (overflow.limit or overflow.input_limit):
        usage = (overflow.prompt_tokens, 0)
        sizing.calibrations.learn(base_url, model, sent.outcome.counted, usage)


def is_echo(request: ChatRequest, overflow: Overflow) -> bool:
    """Return whether the upstream may only have quoted the client's text, with its numbers."""
    if not overflow.words:
        return False
    return overflow.words in json.dumps(request.fields, ensure_ascii=False).lower()


def is_doubtful(sent: Sent, overflow: Overflow) -> bool:
    """Return whether the limit is the window minus the answer, as one vLLM build reports it."""
    window = sent.compaction.measured.window
    asked = max(output_fields(sent.compaction).values(), default=0)
    return bool(window and overflow.limit and overflow.limit + asked == window.tokens)


async def smaller(sent: Sent, overflow: Overflow, services: CompactionServices) -> Sent | None:
    """Return the request in a smaller form that should fit, or None if there is none."""
    if sent.replays >= MAX_REPLAYS or asks_for_none(sent.compaction, overflow):
        return None
    if sent.compaction.policy.clips_output:
        if (clipped := with_less_output(sent, overflow)) is not None:
            return clipped
    elif overflow.limit is not None and (overflow.output_tokens or 0) >= overflow.limit:
        return None
    available = room_for(sent, overflow)
    chosen: CompactionResult | None = None
    smallest = len(sent.body) if overflow.is_bytes else sent.outcome.token_count.tokens
    async for outcome in ladder(sent, overflow, available, services):
        size = size_of(sent.compaction, outcome, overflow)
        if size < smallest:
            chosen, smallest = outcome, size
            # Try a form that should fit first; an upstream that refuses it gets the smallest.
            if not sent.replays and (overflow.is_bytes or outcome.token_count.tokens <= available):
                break
    return None if chosen is None else as_sent(sent, chosen, overflow.limit, available)


def size_of(compaction: CompactionRequest, outcome: CompactionResult, overflow: Overflow) -> int:
    """Return a request's size in the unit of the upstream's limit: bytes or tokens."""
    if overflow.is_bytes:
        return len(body_of(compaction, outcome.conversation))
    return outcome.token_count.tokens


def as_sent(sent: Sent, outcome: CompactionResult, limit: int | None, available: int) -> Sent:
    """Return the request with another outcome; lowered output is set to what fits now."""
    label = "trimmed" if outcome.label == "none" else outcome.label
    steps = (*outcome.steps, Step(REPLAY, outcome.conversation))
    outcome = outcome._replace(label=label, steps=steps, is_break=True)
    if not sent.output:
        body = body_of(sent.compaction, outcome.conversation)
        return Sent(sent.compaction, outcome, body, sent.replays + 1)
    output = dict(sent.output)
    if limit is not None:
        left = output_left(limit, int(outcome.token_count.tokens * limit / max(1, available)))
        output = {
            name: min(tokens, left)
            for name, tokens in output_fields(sent.compaction).items()
            if tokens > 0
        }
    body = body_with(sent.compaction, outcome.conversation, output)
    return Sent(sent.compaction, outcome, body, sent.replays + 1, output)


def room_for(sent: Sent, overflow: Overflow) -> int:
    """Return the prompt tokens, by our count, that the upstream would accept.

    If our count differs from the upstream's, the limit is scaled by the ratio.
    """
    tokens = sent.outcome.token_count.tokens
    limit = overflow.input_limit or overflow.limit
    if limit is None:
        return int(tokens / UNKNOWN_EXCESS)
    real = overflow.prompt_tokens or max(tokens, limit * UNKNOWN_EXCESS)
    return int((limit - output_kept(sent.compaction, overflow)) * min(1, tokens / real))


def output_kept(compaction: CompactionRequest, overflow: Overflow) -> int:
    """Return the output tokens to reserve: the server's default, or a value not to be lowered."""
    output, limit = overflow.output_tokens, overflow.limit
    if output is None or limit is None or not overflow.output_alone or output >= limit:
        return 0
    is_lowered = compaction.policy.clips_output and any(
        tokens > 0 for tokens in output_fields(compaction).values()
    )
    return 0 if is_lowered else output


async def ladder(
    sent: Sent, overflow: Overflow, available: int, services: CompactionServices
) -> AsyncIterator[CompactionResult]:
    """Yield ever smaller forms: summary, no older media, less current media, cut tool results."""
    request_counter = RequestCounter(
        sent.compaction.request, sent.compaction.measured, services.tokenizers
    )
    outcome = sent.outcome
    if not overflow.is_bytes:
        outcome = await for_window(sent, available, services)
        yield outcome
    for conversation in media_ladder(outcome.conversation):
        token_count = await request_counter.count_conversation(conversation)
        outcome = outcome._replace(conversation=conversation, token_count=token_count)
        yield outcome
    policy = sent.compaction.policy.stages.truncate_tool_output
    for conversation in results_ladder(outcome.conversation, policy):
        token_count = await request_counter.count_conversation(conversation)
        if overflow.is_bytes or token_count.tokens <= available * RESULTS_SHARE:
            yield outcome._replace(conversation=conversation, token_count=token_count)


def results_ladder(
    conversation: Conversation, policy: TruncateToolOutputPolicy
) -> Iterator[Conversation]:
    """Yield the conversation with its tool results cut shorter and shorter.

    An agent that reads a dozen files in one step has nothing older to remove instead.
    """
    for max_bytes in RESULT_BYTES if policy.enabled else ():
        cut = TruncateToolOutput(replace(policy, max_bytes=min(max_bytes, policy.max_bytes)))
        shorter = cut(conversation, StageContext()).conversation
        if shorter is not conversation:
            yield shorter


def media_ladder(conversation: Conversation) -> Iterator[Conversation]:
    """Yield the conversation without older media, then with fewer and fewer current ones.

    The steps are few, however many media there are, because each is written and counted again.
    """
    older = without_older_media(conversation)
    if older is not conversation:
        yield older
    media = sum(1 for message in older.messages for _ in message.media())
    for keep in sorted(
        {media * step // MAX_MEDIA_STEPS for step in range(MAX_MEDIA_STEPS)}, reverse=True
    ):
        step = without_current_media(older, keep)
        if step is not older:
            yield step


async def for_window(sent: Sent, available: int, services: CompactionServices) -> CompactionResult:
    """Compact the request for the window that the upstream turned out to have."""
    compaction = sent.compaction
    measured = measured_in(
        compaction.measured, Window(available, "learned"), compaction.request, compaction.route
    )
    compaction = compaction._replace(measured=measured)
    return await decide(compaction, await trim(compaction, services), services)


def output_fields(compaction: CompactionRequest) -> dict[str, int]:
    """Return the output tokens that the request asks for, by field name."""
    fields = compaction.request.fields
    return {name: fields[name] for name in OUTPUT_FIELDS if type(fields.get(name)) is int}


def asks_for_none(compaction: CompactionRequest, overflow: Overflow) -> bool:
    """Return whether the upstream only quotes the small output that the request asks for."""
    return (
        overflow.output_left is not None
        and overflow.output_left in output_fields(compaction).values()
    )


def with_less_output(sent: Sent, overflow: Overflow) -> Sent | None:
    """Return the request with less output, None if that alone would not make it fit."""
    fields = output_fields(sent.compaction) | dict(sent.output)
    asked = {name: tokens for name, tokens in fields.items() if tokens > 0}
    limit = overflow.limit
    if limit is None or not asked:
        return None
    prompt = overflow.prompt_tokens or sent.outcome.token_count.tokens
    if not overflow.output_alone and (overflow.output_tokens is None or prompt >= limit):
        return None
    left = output_left(limit, prompt)
    if left < MIN_ANSWER_TOKENS or left >= max(asked.values()):
        return None
    output = {name: min(tokens, left) for name, tokens in asked.items()}
    outcome = sent.outcome
    steps = (*outcome.steps, Step(CLIP_OUTPUT, outcome.conversation))
    label = "trimmed" if outcome.label == "none" else outcome.label
    return Sent(
        sent.compaction,
        outcome._replace(steps=steps, label=label),
        body_with(sent.compaction, outcome.conversation, output),
        sent.replays + 1,
        output,
    )


def output_left(limit: int, prompt: int) -> int:
    """Return the output tokens that a prompt leaves, with a margin."""
    return max(MIN_ANSWER_TOKENS - 1, limit - prompt - limit // 50 - 1)


def body_with(
    compaction: CompactionRequest, conversation: Conversation, fields: Mapping[str, int]
) -> bytes:
    """Return the body with other fields; unchanged messages keep their bytes."""
    request = compaction.request
    messages = serialise_messages(
        request.body, references(compaction, conversation), request.fields
    )
    others = {name: value for name, value in request.fields.items() if name != "messages"} | dict(
        fields
    )
    return b'{"messages":' + messages + b"," + serialise(others)[1:]
