"""Write one summary: query the models in order, validate the answer, build the folded text."""

import asyncio
import secrets

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.summary.plan import Plan, shrunk
from chat_proxy.compaction.summary.prompt import instruction, repair_instruction
from chat_proxy.compaction.summary.transcript import transcript, transcript_prompt
from chat_proxy.compaction.summary.validation.validate import SummaryAnswer, Verdict, verdict
from chat_proxy.errors import UpstreamError, UpstreamUnavailable
from chat_proxy.proxy.session.originals import Originals, SpanOfMessages
from chat_proxy.proxy.summaries.draft import SummaryDraft, checkpoint_of
from chat_proxy.proxy.summaries.jobs import SummaryFailed
from chat_proxy.proxy.summaries.models import Shape, SummaryModel, models_for
from chat_proxy.proxy.summaries.request import (
    Prompt,
    QueryOptions,
    call_for,
    refused_fields,
    rendered,
    ride,
)
from chat_proxy.proxy.summaries.services import SummaryServices
from chat_proxy.upstream.completion import Completion, NotAnswered, complete

MAX_TRIES = 3
WORTH_A_SHORTER_TRY = ("empty", "only_reasoning", "length")
WORTH_ANOTHER_SHAPE = ("refused", "window")
LEAST_ANSWER_TOKENS = 256
LARGEST_ANSWER_SHARE = 4
"""The window divided by this is the maximum answer, so that a small window can hold a prompt."""
MARGIN_TOKENS = 64
MARGIN_SHARE = 0.02
MARGIN_ELSEWHERE = 0.1


async def write_summary(draft: SummaryDraft, plan: Plan, services: SummaryServices) -> Checkpoint:
    """Return the checkpoint with a new summary, or raise SummaryFailed."""
    failure = SummaryFailed("window")
    *others, own = await models_for(draft.compaction, draft.budget, services)
    for summary_model in (*others, own):
        # A configured model must leave the request's own model some of the time.
        seconds = (
            None
            if summary_model is own
            else draft.compaction.policy.summary.timeout_seconds * 2 / 3
        )
        try:
            async with asyncio.timeout(seconds):
                summary, done = await asked(draft, plan, summary_model, services)
        except TimeoutError:
            failure = SummaryFailed("timeout")
        except SummaryFailed as error:
            failure = error
        else:
            source = await kept_originals(draft, done, services.originals)
            return await asyncio.to_thread(checkpoint_of, draft, done, summary, source)
    raise failure


async def kept_originals(draft: SummaryDraft, plan: Plan, originals: Originals) -> str:
    """Store the client's own messages of a span; return the line that names the place."""
    start, end = draft.applied.folded_until, draft.boundary(plan)
    history = draft.history
    return await originals.keep_span(
        SpanOfMessages(
            draft.compaction.tenant,
            history.link_at(end).hex(),
            draft.compaction.conversation.fields[start:end],
            start,
            history.link_at(start).hex() if start else None,
        )
    )


async def asked(
    draft: SummaryDraft, plan: Plan, summary_model: SummaryModel, services: SummaryServices
) -> tuple[str, Plan]:
    """Return one model's summary and the span that it covers, or raise SummaryFailed."""
    failure = SummaryFailed("window")
    for shape in summary_model.shapes:
        try:
            return await SummaryQuery(draft, summary_model, shape, services).ask(plan)
        except SummaryFailed as error:
            failure = error
            if error.reason not in WORTH_ANOTHER_SHAPE:
                break
    raise failure


class SummaryQuery:
    """The query of one model in one shape."""

    def __init__(
        self,
        draft: SummaryDraft,
        summary_model: SummaryModel,
        shape: Shape,
        services: SummaryServices,
    ) -> None:
        self._draft = draft
        self._summary_model = summary_model
        self._shape = shape
        self._services = services
        self._nonce = secrets.token_hex(8)
        self._unwanted = services.jobs.rejected_fields.get(summary_model.name) or frozenset()
        policy = draft.compaction.policy.summary
        self._cap = min(
            policy.summary_tokens(draft.budget), summary_model.window // LARGEST_ANSWER_SHARE
        )
        self._instruction = instruction(
            template=policy.instruction, previous=bool(draft.previous), extra=draft.wish
        )

    async def ask(self, plan: Plan) -> tuple[str, Plan]:
        """Return the summary and the span that it covers, or raise SummaryFailed.

        After an empty or an unfinished answer the model gets a shorter span.
        """
        span = plan
        for _ in range(MAX_TRIES):
            span, max_tokens = await self._fitted(span)
            judged = await self._judged(span, max_tokens)
            if judged.ok:
                return judged.text, span
            if judged.reason not in WORTH_A_SHORTER_TRY:
                break
            half = self._draft.span_tokens(span) // 2
            shorter = shrunk(span, self._draft.cleared, self._draft.sent_sizes, half)
            if shorter is None:
                break
            span = shorter
        raise SummaryFailed(judged.reason)

    async def _fitted(self, plan: Plan) -> tuple[Plan, int]:
        """Return a span that fits the model's window, and the maximum tokens of the answer.

        Strictly: prompt + answer < window, as vLLM refuses a prompt that fills it.
        """
        for _ in range(MAX_TRIES):
            prompt = await self._prompt_tokens(plan)
            room = self._summary_model.window - prompt - 1
            if room >= min(self._cap, LEAST_ANSWER_TOKENS):
                return plan, min(self._cap, room)
            left = self._span_left(self._draft.span_tokens(plan), prompt, room)
            shorter = shrunk(plan, self._draft.cleared, self._draft.sent_sizes, left)
            if shorter is None:
                break
            plan = shorter
        raise SummaryFailed("window")

    def _span_left(self, span: int, prompt: int, room: int) -> int:
        """Return how many of the span's tokens would fit; a transcript has fewer than were sent."""
        if self._shape == "ride":
            return span - (self._cap - room)
        return span * max(0, self._summary_model.window - 1 - self._cap) // prompt

    async def _prompt_tokens(self, plan: Plan) -> int:
        """Return the tokens of the query, with a safety margin."""
        draft = self._draft
        if self._shape == "ride":
            token_count = await draft.request_counter.count_conversation(draft.seen(plan))
            tokens = token_count.tokens + draft.request_counter.count(self._instruction)
            return int(tokens * (1 + MARGIN_SHARE)) + MARGIN_TOKENS
        prompt = await asyncio.to_thread(self._transcript_prompt, plan)
        tokens = await asyncio.to_thread(
            lambda: sum(draft.request_counter.count(message["content"]) for message in prompt)
        )
        return int(tokens * (1 + MARGIN_ELSEWHERE)) + MARGIN_TOKENS

    async def _judged(self, plan: Plan, max_tokens: int) -> Verdict:
        """Query the model and validate the answer; repeat once if only sections are missing."""
        prompt = await asyncio.to_thread(self._prompt, plan)
        answer = await self._paid_answer(plan, prompt, max_tokens)
        judged = await self._judge(plan, answer)
        if judged.reason != "sections":
            return judged
        again: Prompt = [
            *prompt,
            {"role": "assistant", "content": answer.text},
            {"role": "user", "content": repair_instruction(judged.missing)},
        ]
        spent = (
            self._draft.request_counter.count(answer.text + again[-1]["content"]) + MARGIN_TOKENS
        )
        left = self._summary_model.window - await self._prompt_tokens(plan) - spent
        if left < LEAST_ANSWER_TOKENS:
            return judged
        return await self._judge(plan, await self._paid_answer(plan, again, min(max_tokens, left)))

    async def _paid_answer(self, plan: Plan, prompt: Prompt, max_tokens: int) -> Completion:
        """Query at the tenant's expense, or raise SummaryFailed when its budget is used up."""
        budget, tenant = self._services.tenant_budget, self._draft.compaction.tenant
        if not budget.allows(tenant):
            raise SummaryFailed("tenant_budget")
        # Spend an estimate in advance, so that concurrent queries do not all see the full budget.
        estimate = self._draft.span_tokens(plan) + max_tokens
        budget.spend(tenant, estimate)
        try:
            answer = await self._answer(plan, prompt, max_tokens)
        except SummaryFailed:
            budget.spend(tenant, -estimate)
            raise
        if answer.usage is not None:
            used = answer.usage.prompt_tokens + answer.usage.completion_tokens
            budget.spend(tenant, used - estimate)
        return answer

    async def _answer(self, plan: Plan, prompt: Prompt, max_tokens: int) -> Completion:
        """Send the query and return the answer, or raise SummaryFailed."""
        compaction, summary_model = self._draft.compaction, self._summary_model
        options = QueryOptions(summary_model, max_tokens, self._unwanted)
        if self._shape == "ride":
            body = ride(compaction, self._draft.seen(plan), prompt, options)
        else:
            body = rendered(compaction, prompt, options)
        breaker = self._services.jobs.breakers.of(summary_model.name)
        try:
            breaker.check()
        except UpstreamUnavailable as closed:
            raise SummaryFailed(closed.code) from None
        metrics = self._services.metrics
        try:
            call = call_for(summary_model, body, compaction.request_id)
            answer = await complete(self._services.upstream, call)
        except NotAnswered as refusal:
            metrics.side_queries.labels(self._shape, "refused").inc()
            if refusal.status in (400, 404, 413, 422):
                breaker.succeeded()
                if self._drop_refused_fields(refusal):
                    return await self._answer(plan, prompt, max_tokens)
                raise SummaryFailed("refused") from None
            breaker.failed(refusal.retry_after or 0)
            raise SummaryFailed("unavailable", refusal.retry_after) from None
        except UpstreamError:
            metrics.side_queries.labels(self._shape, "failed").inc()
            breaker.failed()
            raise SummaryFailed("unavailable") from None
        except BaseException:
            metrics.side_queries.labels(self._shape, "cancelled").inc()
            breaker.failed()
            raise
        breaker.succeeded()
        metrics.side_queries.labels(self._shape, "answered").inc()
        if answer.usage is not None:
            metrics.side_query_tokens.labels("prompt").inc(answer.usage.prompt_tokens)
            metrics.side_query_tokens.labels("completion").inc(answer.usage.completion_tokens)
        return answer

    def _drop_refused_fields(self, refusal: NotAnswered) -> bool:
        """Drop the fields that this model refuses from all later queries; return if any is new."""
        refused = self._unwanted | refused_fields(refusal.status, refusal.said)
        is_new = refused != self._unwanted
        self._unwanted = refused
        if is_new:
            self._services.jobs.rejected_fields.put(self._summary_model.name, refused)
        return is_new

    async def _judge(self, plan: Plan, answer: Completion) -> Verdict:
        draft = self._draft
        given = SummaryAnswer(answer.text, answer.finish_reason, answer.calls_tools, answer.refuses)
        source = text_of(draft.seen(plan)) + "\n" + draft.previous
        replaced = draft.span_tokens(plan) + draft.request_counter.count(draft.previous)
        return await asyncio.to_thread(
            verdict, given, source, replaced, draft.request_counter.count
        )

    def _prompt(self, plan: Plan) -> Prompt:
        if self._shape == "ride":
            return [{"role": "user", "content": self._instruction}]
        return self._transcript_prompt(plan)

    def _transcript_prompt(self, plan: Plan) -> Prompt:
        draft = self._draft
        messages = draft.applied.unfolded.messages[plan.start : plan.end]
        text = transcript(messages, self._nonce)
        return transcript_prompt(self._instruction, text, draft.previous or None, self._nonce)


def text_of(conversation: Conversation) -> str:
    """Return the texts of all messages, without media."""
    return "\n".join(text for message in conversation.messages for _, text in message.pieces())
