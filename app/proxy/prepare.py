"""Make a chat request ready to be sent: measured, compacted, noted; or as it came."""

from typing import NamedTuple

from app.chat.request import ChatRequest
from app.proxy.addressee import Addressee
from app.proxy.case import Case, Outcome, as_it_came, body_of
from app.proxy.compact import compact, is_at_ease
from app.proxy.measure import Measured, measure, measure_at_once
from app.proxy.note_exchange import note_exchange
from app.proxy.replay import Sent, learn_from, smaller
from app.proxy.services import Services
from app.proxy.visit import Visit
from app.telemetry.logs import WARNING, say, say_mistake
from app.telemetry.record import ExchangeRecord
from app.tokens.counter import RequestCount
from app.upstream.overflow import Overflow


class Prepared(NamedTuple):
    """What is sent upstream, and its tokens if they were counted."""

    body: bytes
    counted: RequestCount | None = None
    case: Case | None = None
    """What a replay can make smaller, if it may."""
    sent: Sent | None = None
    """How it is sent, if it is not as it came."""


async def prepared_or_not(
    request: ChatRequest, to: Addressee, visit: Visit, services: Services
) -> Prepared:
    """Prepare a request; one that cannot be prepared goes on as it is."""
    try:
        return await prepared(request, to, visit, services)
    except Exception as error:  # noqa: BLE001 - features fail open
        say_mistake("request could not be prepared", error)
        visit.record.compaction = "failed-open"
        return Prepared(request.body)


async def prepared(
    request: ChatRequest, to: Addressee, visit: Visit, services: Services
) -> Prepared:
    """Measure and compact a request; in observe mode only note what would have been done."""
    record = visit.record
    credentials = services.destinations.credentials_for(to.card, visit.caller)
    measured = measure_at_once(request, to, services)
    if measured is None:
        measured = await measure(request, to, credentials, services)
    if measured is None:
        services.metrics.skipped.labels("shape").inc()
        return Prepared(request.body)
    note_size(record, measured)
    if measured.window is None:
        services.metrics.skipped.labels("window").inc()
    observes = record.mode == "observe"
    tenant = visit.caller.tenant
    case = Case(request, measured, to, tenant, credentials, record.request_id, observes)
    replays = to.policy.replays and not observes
    if is_at_ease(case, services):
        note_exchange(case, None, record, services)
        return Prepared(request.body, measured.counted, case if replays else None)
    outcome = await compact(case, services)
    note_outcome(record, outcome)
    note_exchange(case, outcome, record, services)
    if observes:
        return Prepared(request.body, measured.counted)
    body = body_of(case, outcome.conversation)
    if not replays:
        return Prepared(body, outcome.counted)
    return Prepared(body, outcome.counted, case, Sent(case, outcome, body))


async def replayed_or_not(
    prepared: Prepared, overflow: Overflow, visit: Visit, services: Services
) -> Prepared | None:
    """Prepare a request again that the upstream calls too long; None if it cannot be smaller."""
    case = prepared.case
    if case is None:
        return None
    before = prepared.sent or Sent(case, as_it_came(case), prepared.body)
    try:
        await learn_from(before, overflow, services)
        sent = await smaller(before, overflow, services)
    except Exception as error:  # noqa: BLE001 - features fail open
        say_mistake("request could not be made smaller", error)
        return None
    if sent is None:
        services.metrics.replays.labels("exhausted").inc()
        return None
    services.metrics.replays.labels("sent").inc()
    note_outcome(visit.record, sent.outcome)
    visit.record.replays = sent.replays
    note_exchange(sent.case, sent.outcome, visit.record, services)
    return Prepared(sent.body, sent.outcome.counted, sent.case, sent)


def note_size(record: ExchangeRecord, measured: Measured) -> None:
    """Write down how large the request is."""
    record.tokens_before = record.tokens_after = measured.tokens
    record.messages_before = record.messages_after = len(measured.conversation)
    if measured.window is not None:
        record.window = measured.window.tokens
        record.window_source = measured.window.source


def note_outcome(record: ExchangeRecord, outcome: Outcome) -> None:
    """Write down what became of the request, and say what a stage wants said."""
    record.compaction = outcome.label
    record.stages = outcome.stages
    record.failed_stages = tuple([failure.stage for failure in outcome.failures])
    record.is_break = outcome.is_break
    record.messages_after = len(outcome.conversation)
    record.tokens_after = outcome.weight.tokens
    for notice in outcome.notices:
        say(notice, request_id=record.request_id, mode=record.mode)
    for failure in outcome.failures:
        say(
            "a stage failed and was passed by",
            WARNING,
            request_id=record.request_id,
            stage=failure.stage,
            exception=type(failure.error).__name__,
        )
