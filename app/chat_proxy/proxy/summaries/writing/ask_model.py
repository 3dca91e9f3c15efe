"""Send one query to a summary model, at the expense of the tenant and within the breaker."""

import asyncio

from chat_proxy.errors import UpstreamError, UpstreamUnavailable
from chat_proxy.proxy.session.request import CompactionRequest
from chat_proxy.proxy.summaries.failure import SummaryFailed
from chat_proxy.proxy.summaries.services import SummaryServices
from chat_proxy.proxy.summaries.writing.models import Shape, SummaryModel
from chat_proxy.proxy.summaries.writing.request import MakeBody, call_for, refused_fields
from chat_proxy.upstream.completion import NotAnswered, complete
from chat_proxy.upstream.said import said_in
from chat_proxy.wires.answers import Completion

REFUSING_STATUSES = (400, 404, 413, 422)


async def ask_model(
    summary_model: SummaryModel,
    shape: Shape,
    compaction: CompactionRequest,
    make_body: MakeBody,
    estimate: int,
    services: SummaryServices,
) -> Completion:
    """Return the model's answer, or raise SummaryFailed; `estimate` is the query's tokens.

    `make_body` returns the query without the fields that the model is known to refuse.
    """
    budget, tenant = services.tenant_budget, compaction.tenant
    if not budget.allows(tenant):
        raise SummaryFailed("tenant_budget")
    # Spend an estimate in advance, so that concurrent queries do not all see the full budget.
    budget.spend(tenant, estimate)
    try:
        answer = await _answer(summary_model, shape, compaction, make_body, services)
    except SummaryFailed:
        budget.spend(tenant, -estimate)
        raise
    if answer.usage is not None:
        used = answer.usage.prompt_tokens + answer.usage.completion_tokens
        budget.spend(tenant, used - estimate)
    return answer


async def _answer(
    summary_model: SummaryModel,
    shape: Shape,
    compaction: CompactionRequest,
    make_body: MakeBody,
    services: SummaryServices,
) -> Completion:
    jobs, metrics = services.jobs, services.metrics
    rejected = jobs.rejected_fields.get(summary_model.name) or frozenset()
    # By tenant: a refusal may concern its key alone. The upstream's own breaker is for all.
    breaker = jobs.breakers.of(f"{summary_model.name} {compaction.tenant}")
    try:
        breaker.check()
    except UpstreamUnavailable as closed:
        raise SummaryFailed(closed.code) from None
    try:
        body = await asyncio.to_thread(make_body, rejected)
        call, form = call_for(summary_model, compaction, body)
        model, base_url = summary_model.model, summary_model.base_url
        with compaction.span.side_query("summary", model, base_url) as span:
            call.headers = span.with_context(call.headers)
            answer = await complete(services.upstream, call, form)
            if answer.usage is not None:
                span.used(*answer.usage)
    except NotAnswered as refusal:
        metrics.side_queries.labels(shape, "refused").inc()
        if refusal.status not in REFUSING_STATUSES:
            breaker.failed(refusal.retry_after or 0)
            raise SummaryFailed("unavailable", refusal.retry_after, _said(refusal, body)) from None
        breaker.succeeded()
        explains = refusal.status in (400, 422)
        named = refused_fields(refusal.status, refusal.said) if explains else frozenset()
        refused = rejected | named
        if refused == rejected:
            raise SummaryFailed("refused", said=_said(refusal, body)) from None
        jobs.rejected_fields.put(summary_model.name, refused)
        return await _answer(summary_model, shape, compaction, make_body, services)
    except UpstreamError as error:
        metrics.side_queries.labels(shape, "failed").inc()
        breaker.failed()
        raise SummaryFailed("unavailable", said=error.message) from None
    except BaseException:
        metrics.side_queries.labels(shape, "cancelled").inc()
        breaker.failed()
        raise
    breaker.succeeded()
    metrics.side_queries.labels(shape, "answered").inc()
    if answer.usage is not None:
        metrics.side_query_tokens.labels("prompt").inc(answer.usage.prompt_tokens)
        metrics.side_query_tokens.labels("completion").inc(answer.usage.completion_tokens)
        metrics.side_query_tokens.labels("cached").inc(answer.usage.cached_tokens)
    return answer


def _said(refusal: NotAnswered, body: bytes) -> str:
    """Return the status and the words of a refusal, without what they quote of the query."""
    words = said_in(refusal.said, body)
    return f"status {refusal.status}, {words}" if words else f"status {refusal.status}."
