"""Overflow replay: after a refusal for length, learn the limit and send a smaller request."""

import asyncio
import json
from typing import NamedTuple

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.compaction.pipeline import Step
from chat_proxy.compaction.planner.forms import Goal
from chat_proxy.proxy.compacting.clear import with_cleared
from chat_proxy.proxy.compacting.compact import compact_to_fit, compact_to_smallest
from chat_proxy.proxy.compacting.open_session import open_session
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.compacting.trim import trim
from chat_proxy.proxy.forwarding.fewer_bytes import with_fewer_bytes
from chat_proxy.proxy.forwarding.refusals import TooLong, TruncatedPrompt
from chat_proxy.proxy.session.output import (
    body_to_send,
    output_fields,
    output_left,
    with_output,
)
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.sizing.calibrations import Counted
from chat_proxy.proxy.sizing.context_window import Window
from chat_proxy.proxy.sizing.measure import Sizing, measured_in
from chat_proxy.telemetry.metrics import Metrics
from chat_proxy.tokens.counter import RequestCount
from chat_proxy.upstream.overflow import Overflow

MAX_REPLAYS = 2
REPLAY = "replay"
MIN_ANSWER_TOKENS = 16
LEAST_PROOF_TOKENS = 1_000
"""The size from which a refusal without a number says something about the window."""
LEAST_STEP = 0.97
"""The share of the last size that the next form may have if the upstream named no excess."""


class Sent(NamedTuple):
    """A request as it was sent."""

    compaction: CompactionRequest
    outcome: CompactionResult
    body: bytes
    replays: int = 0
    refused: RequestCount | None = None
    """The form before it, if that was refused without a limit."""


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
        counted = Counted(sent.outcome.counted, compaction.measured.calibration)
        sizing.calibrations.learn((base_url, model), counted, usage)


def learn_from_success(sent: Sent, sizing: Sizing) -> None:
    """Learn from an accepted replay that the window is smaller than what was refused before it.

    Without a success nothing is learned: an upstream that refuses everything has another reason.
    """
    route = sent.compaction.route
    calibration = sizing.calibrations.known(route.base_url, route.model)
    if sent.refused is None or calibration is None:
        return
    tokens = calibration.estimate(sent.refused)
    if tokens >= LEAST_PROOF_TOKENS:
        sizing.learned_windows.lower(route.base_url, route.model, tokens - 1)


async def refused_without_limit(sent: Sent, overflow: Overflow) -> RequestCount | None:
    """Return the tokens of a request that was refused without a limit; None if there is one."""
    if overflow.is_bytes or overflow.limit or overflow.input_limit:
        return None
    is_quoted = await asyncio.to_thread(is_echo, sent.compaction.request, overflow)
    return None if is_quoted else sent.outcome.counted


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
    """Return the request in the next smaller form, or None if there is none."""
    if sent.replays >= MAX_REPLAYS or asks_for_none(sent.compaction, overflow):
        return None
    if sent.compaction.policy.clips_output:
        if (clipped := with_less_output(sent, overflow)) is not None:
            return clipped
    elif overflow.limit is not None and (overflow.output_tokens or 0) >= overflow.limit:
        return None
    if overflow.is_bytes:
        outcome = await with_fewer_bytes(
            sent.compaction, sent.outcome, sent.body, services, is_last=sent.replays > 0
        )
        return None if outcome is None else as_sent(sent, outcome)
    available = room_for(sent, overflow)
    outcome = await next_form(sent, overflow, available, services)
    if outcome is None:
        return with_least_output(sent, overflow)
    return as_sent(sent, with_remaining_output(sent, outcome, overflow, available))


def as_sent(sent: Sent, outcome: CompactionResult) -> Sent:
    """Return the request with another outcome, which counts as a replay."""
    label = "trimmed" if outcome.label == "none" else outcome.label
    steps = (*outcome.steps, Step(REPLAY, outcome.conversation))
    outcome = outcome._replace(label=label, steps=steps, is_break=True)
    body = body_to_send(sent.compaction, outcome)
    return Sent(sent.compaction, outcome, body, sent.replays + 1)


async def next_form(
    sent: Sent, overflow: Overflow, available: int, services: CompactionServices
) -> CompactionResult | None:
    """Return the planner's next form for the window that the upstream turned out to have.

    The second replay takes the smallest form that there is.
    """
    compaction, tokens = sent.compaction, sent.outcome.token_count.tokens
    limit = overflow.limit or overflow.input_limit or available
    measured = measured_in(
        compaction.measured, Window(limit, "learned"), compaction.request, compaction.route
    )
    compaction = compaction._replace(measured=measured)
    session = await open_session(compaction, await trim(compaction, services), services)
    found = await session.find()
    applied = await session.apply(found)
    outcome = await session.outcome(applied)
    if not sent.replays:
        most = min(available, int(tokens * LEAST_STEP))
        budget = session.budget
        goal = Goal(min(budget.trigger, most), min(budget.limit, most), most)
        smaller = await compact_to_fit(session, applied, outcome, goal, services)
        if not smaller.unfit and smaller.token_count.tokens < tokens:
            return with_cleared(session, found, smaller)
    smallest = await compact_to_smallest(session, applied, outcome, services)
    if smallest.token_count.tokens >= tokens:
        return None
    return with_cleared(session, found, smallest)


def room_for(sent: Sent, overflow: Overflow) -> int:
    """Return the prompt tokens, by our count, that the upstream would accept.

    If our count differs from the upstream's, the limit is scaled by the ratio. Where the upstream
    names no count, the prompt was over the limit by at least one token.
    """
    tokens = sent.outcome.token_count.tokens
    limit = overflow.input_limit or overflow.limit
    if limit is None:
        return int(tokens * LEAST_STEP)
    real = overflow.prompt_tokens or max(tokens, limit + 1)
    return int((limit - output_kept(sent.compaction, overflow)) * min(1, tokens / real))


def output_kept(compaction: CompactionRequest, overflow: Overflow) -> int:
    """Return the output tokens to reserve: the server's default, or a value not to be lowered."""
    output, limit = overflow.output_tokens, overflow.limit
    least = min(least_output(compaction), (limit or 0) // 8)
    if output is None or limit is None or not overflow.output_alone or output >= limit:
        return least
    is_lowered = compaction.policy.clips_output and any(
        tokens > 0 for tokens in output_fields(compaction).values()
    )
    return least if is_lowered else output


def with_remaining_output(
    sent: Sent, outcome: CompactionResult, overflow: Overflow, available: int
) -> CompactionResult:
    """Return the outcome with the output lowered to what its prompt leaves of the limit.

    If the upstream named no limit, output that was lowered before stays so.
    """
    asked = {name: tokens for name, tokens in output_fields(sent.compaction).items() if tokens > 0}
    limit = overflow.limit
    if not asked or not sent.compaction.policy.clips_output:
        return outcome
    if limit is None:
        return with_output(outcome, sent.outcome.output) if sent.outcome.output else outcome
    prompt = int(outcome.token_count.tokens * limit / max(1, available))
    least = least_output(sent.compaction)
    # The line that stands for all older messages takes up to half of the shortest answer.
    left = least // 2 if sent.replays else output_left(limit, prompt, least)
    if left >= max(asked.values()):
        return outcome
    return with_output(outcome, {name: min(tokens, left) for name, tokens in asked.items()})


def asks_for_none(compaction: CompactionRequest, overflow: Overflow) -> bool:
    """Return whether the upstream only quotes the small output that the request asks for."""
    return (
        overflow.output_left is not None
        and overflow.output_left in output_fields(compaction).values()
    )


def with_less_output(sent: Sent, overflow: Overflow) -> Sent | None:
    """Return the request with less output, None if that alone would not make it fit."""
    fields = output_fields(sent.compaction) | dict(sent.outcome.output)
    asked = {name: tokens for name, tokens in fields.items() if tokens > 0}
    limit = overflow.limit
    if limit is None or not asked:
        return None
    prompt = overflow.prompt_tokens or sent.outcome.token_count.tokens
    if not overflow.output_alone and (overflow.output_tokens is None or prompt >= limit):
        return None
    left = output_left(limit, prompt, MIN_ANSWER_TOKENS - 1)
    if left < MIN_ANSWER_TOKENS or left >= max(asked.values()):
        return None
    return _with_output_of(sent, asked, left)


def with_least_output(sent: Sent, overflow: Overflow) -> Sent | None:
    """Return the smallest form with the least output, if the upstream complains of the output.

    Our count of its prompt may be too high.
    """
    fields = output_fields(sent.compaction) | dict(sent.outcome.output)
    asked = {name: tokens for name, tokens in fields.items() if tokens > 0}
    least = least_output(sent.compaction) // 2
    is_lower = max(asked.values(), default=0) > least
    if overflow.output_tokens is None or not is_lower or not sent.compaction.policy.clips_output:
        return None
    return _with_output_of(sent, asked, least)


def _with_output_of(sent: Sent, asked: dict[str, int], most: int) -> Sent:
    outcome = with_output(sent.outcome, {name: min(tokens, most) for name, tokens in asked.items()})
    return Sent(sent.compaction, outcome, body_to_send(sent.compaction, outcome), sent.replays + 1)


def least_output(compaction: CompactionRequest) -> int:
    """Return the shortest answer that is worth sending the request for."""
    budget = compaction.measured.budget
    return budget.least_answer if budget else MIN_ANSWER_TOKENS


def count_replay(metrics: Metrics, refusal: TooLong, *, is_sent: bool) -> None:
    """Count whether there was a smaller form; `learn` counts truncated prompts without one."""
    if not isinstance(refusal, TruncatedPrompt):
        metrics.replays.labels("sent" if is_sent else "exhausted").inc()
    elif is_sent:
        metrics.silent_truncations.labels("replayed").inc()
