"""The upstream says "too long": learn from it, and send the request once more, smaller."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from app.chat.conversation import Conversation
from app.chat.request import ChatRequest
from app.chat.splice import dumped, written_messages
from app.compaction.attachments import without_current_media, without_older_media
from app.compaction.pipeline import Step
from app.compaction.stage import StageContext
from app.compaction.stages.truncate_tool_output import (
    TruncateToolOutput,
    TruncateToolOutputPolicy,
)
from app.proxy.case import Case, Outcome, body_of, references
from app.proxy.compact import compact
from app.proxy.measure import measured_in
from app.proxy.scales import Scales
from app.proxy.services import Services
from app.proxy.window import Window
from app.upstream.overflow import Overflow

MOST_REPLAYS = 2
MOST_RUNGS = 8
REPLAY = "replay"
CLIP_OUTPUT = "clip_output"
UNKNOWN_EXCESS = 1.15
"""How far over its limit a prompt is taken to be when the upstream does not say."""
LEAST_ANSWER_TOKENS = 16
RESULT_BYTES = (16_000, 8_000, 4_000, 2_000, 1_000, 500, 250)
"""What a tool result is cut to at last, step by step."""
RESULTS_SHARE = 0.9
"""How much of the room a prompt with cut results may take: nobody saw it counted."""
OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens")


class Sent(NamedTuple):
    """A request as it was sent."""

    case: Case
    outcome: Outcome
    body: bytes
    replays: int = 0
    output: Mapping[str, int] = MappingProxyType({})
    """What it asks for the answer, where that is less than the client asked."""


async def learn_from(sent: Sent, overflow: Overflow, services: Services) -> None:
    """Remember the limit, and what the prompt really counted, for all later requests."""
    case = sent.case
    if await asyncio.to_thread(is_echo, case.request, overflow):
        return
    base_url, model = case.to.base_url, case.to.model
    if not is_doubtful(sent, overflow):
        services.learned_windows.learn(base_url, model, overflow)
    if overflow.prompt_tokens is not None and (overflow.limit or overflow.input_limit):
        usage = (overflow.prompt_tokens, 0)
        services.calibrations.learn(base_url, model, sent.outcome.counted, usage)


def is_echo(request: ChatRequest, overflow: Overflow) -> bool:
    """Tell whether the upstream may only have repeated the client's words, numbers and all."""
    if not overflow.words:
        return False
    return overflow.words in json.dumps(request.fields, ensure_ascii=False).lower()


def is_doubtful(sent: Sent, overflow: Overflow) -> bool:
    """Tell whether the limit is the known window less the answer, as one vLLM build reports it."""
    window = sent.case.measured.window
    asked = max(output_fields(sent.case).values(), default=0)
    return bool(window and overflow.limit and overflow.limit + asked == window.tokens)


async def smaller(sent: Sent, overflow: Overflow, services: Services) -> Sent | None:
    """Return the request in a smaller form that should fit, or None if there is none."""
    if sent.replays >= MOST_REPLAYS or asks_for_none(sent.case, overflow):
        return None
    if sent.case.policy.clips_output:
        if (clipped := with_less_output(sent, overflow)) is not None:
            return clipped
    elif overflow.limit is not None and (overflow.output_tokens or 0) >= overflow.limit:
        return None
    room = room_for(sent, overflow)
    chosen: Outcome | None = None
    least = len(sent.body) if overflow.is_bytes else sent.outcome.weight.tokens
    async for outcome in ladder(sent, overflow, room, services):
        size = size_of(sent.case, outcome, overflow)
        if size < least:
            chosen, least = outcome, size
            # A form that should fit is tried first; whoever refuses it gets the smallest.
            if not sent.replays and (overflow.is_bytes or outcome.weight.tokens <= room):
                break
    return None if chosen is None else as_sent(sent, chosen, overflow.limit, room)


def size_of(case: Case, outcome: Outcome, overflow: Overflow) -> int:
    """Return a request's size in what the upstream complains of: bytes or tokens."""
    if overflow.is_bytes:
        return len(body_of(case, outcome.conversation))
    return outcome.weight.tokens


def as_sent(sent: Sent, outcome: Outcome, limit: int | None, room: int) -> Sent:
    """Return the request with another outcome; where less output was asked, as much as fits."""
    label = "trimmed" if outcome.label == "none" else outcome.label
    steps = (*outcome.steps, Step(REPLAY, outcome.conversation))
    outcome = outcome._replace(label=label, steps=steps, is_break=True)
    if not sent.output:
        body = body_of(sent.case, outcome.conversation)
        return Sent(sent.case, outcome, body, sent.replays + 1)
    output = dict(sent.output)
    if limit is not None:
        left = output_left(limit, int(outcome.weight.tokens * limit / max(1, room)))
        output = {name: min(it, left) for name, it in output_fields(sent.case).items() if it > 0}
    body = body_with(sent.case, outcome.conversation, output)
    return Sent(sent.case, outcome, body, sent.replays + 1, output)


def room_for(sent: Sent, overflow: Overflow) -> int:
    """Return the tokens, as we count them, that the upstream would take.

    Where our count is far from the upstream's, its limit is scaled by how far.
    """
    tokens = sent.outcome.weight.tokens
    limit = overflow.input_limit or overflow.limit
    if limit is None:
        return int(tokens / UNKNOWN_EXCESS)
    real = overflow.prompt_tokens or max(tokens, limit * UNKNOWN_EXCESS)
    return int((limit - output_kept(sent.case, overflow)) * min(1, tokens / real))


def output_kept(case: Case, overflow: Overflow) -> int:
    """Return the output that needs room: the server's own wish, or one not to be lowered."""
    output, limit = overflow.output_tokens, overflow.limit
    if output is None or limit is None or not overflow.output_alone or output >= limit:
        return 0
    is_lowered = case.policy.clips_output and any(it > 0 for it in output_fields(case).values())
    return 0 if is_lowered else output


async def ladder(
    sent: Sent, overflow: Overflow, room: int, services: Services
) -> AsyncIterator[Outcome]:
    """Yield ever smaller forms: summary, older media away, current media away, results cut."""
    scales = Scales(sent.case.request, sent.case.measured, services.tokenizers)
    outcome = sent.outcome
    if not overflow.is_bytes:
        outcome = await for_window(sent, room, services)
        yield outcome
    for conversation in media_ladder(outcome.conversation):
        weight = await scales.weigh(conversation)
        outcome = outcome._replace(conversation=conversation, weight=weight)
        yield outcome
    policy = sent.case.policy.stages.truncate_tool_output
    for conversation in results_ladder(outcome.conversation, policy):
        weight = await scales.weigh(conversation)
        if overflow.is_bytes or weight.tokens <= room * RESULTS_SHARE:
            yield outcome._replace(conversation=conversation, weight=weight)


def results_ladder(
    conversation: Conversation, policy: TruncateToolOutputPolicy
) -> Iterator[Conversation]:
    """Yield the conversation with its tool results cut shorter and shorter.

    An agent that reads a dozen files in one step has nothing older that could go instead.
    """
    for most in RESULT_BYTES if policy.enabled else ():
        cut = TruncateToolOutput(replace(policy, max_bytes=min(most, policy.max_bytes)))
        shorter = cut(conversation, StageContext()).conversation
        if shorter is not conversation:
            yield shorter


def media_ladder(conversation: Conversation) -> Iterator[Conversation]:
    """Yield the conversation without older media, then without more and more of the current.

    In a few steps, however many media there are: each is written and counted anew.
    """
    older = without_older_media(conversation)
    if older is not conversation:
        yield older
    media = sum(1 for message in older.messages for _ in message.media())
    for keep in sorted({media * step // MOST_RUNGS for step in range(MOST_RUNGS)}, reverse=True):
        step = without_current_media(older, keep)
        if step is not older:
            yield step


async def for_window(sent: Sent, room: int, services: Services) -> Outcome:
    """Compact the request for the window that the upstream turned out to have."""
    case = sent.case
    measured = measured_in(case.measured, Window(room, "learned"), case.request, case.policy)
    return await compact(case._replace(measured=measured), services)


def output_fields(case: Case) -> dict[str, int]:
    """Return how many tokens of output the request asks for, by the fields that say so."""
    fields = case.request.fields
    return {name: fields[name] for name in OUTPUT_FIELDS if type(fields.get(name)) is int}


def asks_for_none(case: Case, overflow: Overflow) -> bool:
    """Tell whether the upstream only repeats how little output the request asks for."""
    return overflow.output_left is not None and overflow.output_left in output_fields(case).values()


def with_less_output(sent: Sent, overflow: Overflow) -> Sent | None:
    """Return the request with a smaller maximum for its answer, where that is all that is wrong."""
    fields = output_fields(sent.case) | dict(sent.output)
    asked = {name: tokens for name, tokens in fields.items() if tokens > 0}
    limit = overflow.limit
    if limit is None or not asked:
        return None
    prompt = overflow.prompt_tokens or sent.outcome.weight.tokens
    if not overflow.output_alone and (overflow.output_tokens is None or prompt >= limit):
        return None
    left = output_left(limit, prompt)
    if left < LEAST_ANSWER_TOKENS or left >= max(asked.values()):
        return None
    output = {name: min(tokens, left) for name, tokens in asked.items()}
    outcome = sent.outcome
    steps = (*outcome.steps, Step(CLIP_OUTPUT, outcome.conversation))
    label = "trimmed" if outcome.label == "none" else outcome.label
    return Sent(
        sent.case,
        outcome._replace(steps=steps, label=label),
        body_with(sent.case, outcome.conversation, output),
        sent.replays + 1,
        output,
    )


def output_left(limit: int, prompt: int) -> int:
    """Return the output that a prompt leaves room for, with some to spare."""
    return max(LEAST_ANSWER_TOKENS - 1, limit - prompt - limit // 50 - 1)


def body_with(case: Case, conversation: Conversation, fields: Mapping[str, int]) -> bytes:
    """Return the body with other fields beside its messages, which keep their bytes."""
    request = case.request
    messages = written_messages(request.body, references(case, conversation), request.fields)
    others = {name: it for name, it in request.fields.items() if name != "messages"} | dict(fields)
    return b'{"messages":' + messages + b"," + dumped(others)[1:]
