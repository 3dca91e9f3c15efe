"""The upstream says "too long": learn from it, and send the request once more, smaller."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from app.chat.conversation import Conversation
from app.chat.splice import dumped, written_messages
from app.compaction.attachments import without_current_media, without_older_media
from app.compaction.pipeline import Step
from app.proxy.case import Case, Outcome, body_of, references
from app.proxy.compact import compact
from app.proxy.measure import measured_in
from app.proxy.scales import Scales
from app.proxy.services import Services
from app.proxy.window import Window
from app.upstream.overflow import Overflow

MOST_REPLAYS = 2
REPLAY = "replay"
CLIP_OUTPUT = "clip_output"
UNKNOWN_EXCESS = 1.15
"""How far over its limit a prompt is taken to be when the upstream does not say."""
LEAST_ANSWER_TOKENS = 16
OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens")


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it was sent."""

    case: Case
    outcome: Outcome
    body: bytes
    replays: int = 0


def learn_from(sent: Sent, overflow: Overflow, services: Services) -> None:
    """Remember the limit, and what the prompt really counted, for all later requests."""
    case = sent.case
    base_url = services.destinations.base_url_of(case.card)
    model = case.request.model
    if not is_doubtful(sent, overflow):
        services.learned_windows.learn(base_url, model, overflow)
    if overflow.prompt_tokens is not None:
        usage = (overflow.prompt_tokens, 0)
        services.calibrations.learn(base_url, model, sent.outcome.count, usage)


def is_doubtful(sent: Sent, overflow: Overflow) -> bool:
    """Tell whether the limit is the known window less the answer, as one vLLM build reports it."""
    window = sent.case.measured.window
    asked = max(output_fields(sent.case).values(), default=0)
    return bool(window and overflow.limit and overflow.limit + asked == window.tokens)


async def smaller(sent: Sent, overflow: Overflow, services: Services) -> Sent | None:
    """Return the request in a smaller form that should fit, or None if there is none."""
    case = sent.case
    if case.policy.clips_output and (clipped := with_less_output(sent, overflow)) is not None:
        return clipped
    room = room_for(sent, overflow)
    chosen: Outcome | None = None
    async for outcome in ladder(sent, overflow, room, services):
        if overflow.is_bytes or is_less(outcome, chosen or sent.outcome):
            chosen = outcome
            # A form that should fit is tried first; whoever refuses it gets the smallest.
            if not sent.replays and (overflow.is_bytes or outcome.weight.tokens <= room):
                break
    again = None if chosen is None else as_sent(sent, chosen)
    is_smaller = again is not None and (not overflow.is_bytes or len(again.body) < len(sent.body))
    return again if is_smaller else None


def is_less(outcome: Outcome, other: Outcome) -> bool:
    """Tell whether an outcome has fewer tokens than another."""
    return outcome.weight.tokens < other.weight.tokens


def as_sent(sent: Sent, outcome: Outcome) -> Sent:
    """Return the request with another outcome."""
    label = "trimmed" if outcome.label == "none" else outcome.label
    steps = (*outcome.steps, Step(REPLAY, outcome.conversation))
    outcome = replace(outcome, label=label, steps=steps, is_break=True)
    body = body_of(sent.case, outcome.conversation)
    return Sent(sent.case, outcome, body, sent.replays + 1)


def room_for(sent: Sent, overflow: Overflow) -> int:
    """Return the tokens, as we count them, that the upstream would take.

    Where our count is far from the upstream's, its limit is scaled by how far.
    """
    tokens = sent.outcome.weight.tokens
    limit = overflow.input_limit or overflow.limit
    if limit is None:
        return int(tokens / UNKNOWN_EXCESS)
    real = overflow.prompt_tokens or max(tokens, limit * UNKNOWN_EXCESS)
    return int(limit * min(1, tokens / real))


async def ladder(
    sent: Sent, overflow: Overflow, room: int, services: Services
) -> AsyncIterator[Outcome]:
    """Yield ever smaller forms: summary, older media away, current media away, the oldest first."""
    scales = Scales(sent.case.request, sent.case.measured, services.tokenizers)
    outcome = sent.outcome
    if not overflow.is_bytes:
        outcome = await for_window(sent, room, services)
        yield outcome
    for conversation in media_ladder(outcome.conversation):
        weight = await scales.weigh(conversation)
        outcome = replace(outcome, conversation=conversation, weight=weight)
        yield outcome


def media_ladder(conversation: Conversation) -> list[Conversation]:
    """Return the conversation without older media, then without more and more of the current."""
    steps = [without_older_media(conversation)]
    media = sum(1 for message in steps[0].messages for _ in message.media())
    steps += [without_current_media(steps[0], keep) for keep in range(media - 1, -1, -1)]
    before = [conversation, *steps]
    return [step for step, last in zip(steps, before, strict=False) if step is not last]


async def for_window(sent: Sent, room: int, services: Services) -> Outcome:
    """Compact the request for the window that the upstream turned out to have."""
    case = sent.case
    measured = measured_in(case.measured, Window(room, "learned"), case.request, case.policy)
    return await compact(replace(case, measured=measured), services)


def output_fields(case: Case) -> dict[str, int]:
    """Return how many tokens of output the request asks for, by the fields that say so."""
    fields = case.request.fields
    return {name: fields[name] for name in OUTPUT_FIELDS if type(fields.get(name)) is int}


def with_less_output(sent: Sent, overflow: Overflow) -> Sent | None:
    """Return the request with a smaller maximum for its answer, where that is all that is wrong."""
    asked = {name: tokens for name, tokens in output_fields(sent.case).items() if tokens > 0}
    limit = overflow.limit
    if limit is None or not asked:
        return None
    prompt = overflow.prompt_tokens or sent.outcome.weight.tokens
    if not overflow.output_alone and (overflow.output_tokens is None or prompt >= limit):
        return None
    left = limit - prompt - limit // 50 - 1
    if left < LEAST_ANSWER_TOKENS or left >= max(asked.values()):
        return None
    fields = {name: min(tokens, left) for name, tokens in asked.items()}
    outcome = sent.outcome
    steps = (*outcome.steps, Step(CLIP_OUTPUT, outcome.conversation))
    label = "trimmed" if outcome.label == "none" else outcome.label
    return Sent(
        sent.case,
        replace(outcome, steps=steps, label=label),
        body_with(sent, fields),
        sent.replays + 1,
    )


def body_with(sent: Sent, fields: dict[str, int]) -> bytes:
    """Return the body with other fields beside its messages, which keep their bytes."""
    request = sent.case.request
    messages = written_messages(
        request.body, references(sent.case, sent.outcome.conversation), request.fields
    )
    others = {name: it for name, it in request.fields.items() if name != "messages"} | fields
    return b'{"messages":' + messages + b"," + dumped(others)[1:]
