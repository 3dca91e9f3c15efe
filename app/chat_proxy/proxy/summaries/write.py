"""Write one summary: ask the models in their order, judge the answer, put it into its frame."""

import asyncio
import secrets

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.summary.fold import folded_text, verbatim_user_texts
from chat_proxy.compaction.summary.ledger import ledger, with_ledger
from chat_proxy.compaction.summary.marker import add_marker
from chat_proxy.compaction.summary.plan import Plan, shrunk
from chat_proxy.compaction.summary.prompt import instruction, repair_instruction
from chat_proxy.compaction.summary.transcript import transcript, transcript_prompt
from chat_proxy.compaction.summary.validation.validate import SummaryAnswer, Verdict, verdict
from chat_proxy.errors import UpstreamError, UpstreamUnavailable
from chat_proxy.proxy.routing.summary_policy import ledger_tokens, verbatim_tokens
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.originals import SpanOfMessages
from chat_proxy.proxy.summaries.draft import SummaryDraft
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
from chat_proxy.upstream.completion import Completion, NotAnswered, complete

MOST_TRIES = 3
WORTH_A_SHORTER_TRY = ("empty", "only_reasoning", "length")
WORTH_ANOTHER_SHAPE = ("refused", "window")
LEAST_ANSWER_TOKENS = 256
LARGEST_ANSWER_SHARE = 4
"""The divisor that leaves a small window to what it is to read."""
MARGIN_TOKENS = 64
MARGIN_SHARE = 0.02
MARGIN_ELSEWHERE = 0.1


async def write_summary(draft: SummaryDraft, plan: Plan, services: Services) -> Checkpoint:
    """Return the checkpoint with a new summary, or raise SummaryFailed."""
    failure = SummaryFailed("window")
    *others, own = await models_for(draft.compaction, draft.budget, services)
    for summary_model in (*others, own):
        # Whoever is asked first must leave the request's own model some of the time.
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
            source = await kept_originals(draft, done, services)
            return await asyncio.to_thread(checkpoint_of, draft, done, summary, source)
    raise failure


async def kept_originals(draft: SummaryDraft, plan: Plan, services: Services) -> str:
    """Keep the client's own messages of a span; return the line that says where they are."""
    start, end = draft.applied.folded_until, draft.boundary(plan)
    history = draft.history
    return await services.originals.keep_span(
        SpanOfMessages(
            draft.compaction.tenant,
            history.link_at(end).hex(),
            draft.compaction.conversation.fields[start:end],
            start,
            history.link_at(start).hex() if start else None,
        )
    )


async def asked(
    draft: SummaryDraft, plan: Plan, summary_model: SummaryModel, services: Services
) -> tuple[str, Plan]:
    """Return one model's summary and the span that it stands for, or raise SummaryFailed."""
    failure = SummaryFailed("window")
    for shape in summary_model.shapes:
        try:
            return await SummaryQuery(draft, summary_model, shape, services).ask(plan)
        except SummaryFailed as error:
            failure = error
            if error.reason not in WORTH_ANOTHER_SHAPE:
                break
    raise failure


def checkpoint_of(draft: SummaryDraft, plan: Plan, summary: str, source: str) -> Checkpoint:
    """Return what is left behind: the summary with what it lost and the user's own words."""
    text = framed(draft, plan, summary)
    if source:
        text = f"{text}\n{source}"
    boundary = draft.boundary(plan)
    return Checkpoint(
        draft.history.seam_from(max(boundary, draft.clearing.until)),
        draft.clearing,
        tokens=0,
        folded_until=boundary,
        text=add_marker(text, boundary, draft.sign),
        summary=summary,
    )


def framed(draft: SummaryDraft, plan: Plan, summary: str) -> str:
    """Return the text that stands for the folded messages."""
    conversation = draft.applied.unfolded
    start, count = draft.own_words_start, draft.request_counter.count
    room = verbatim_tokens(draft.budget)
    words = verbatim_user_texts(conversation, start, plan.end, room, count)
    room -= sum(map(count, words))
    earlier = Conversation([Message({"role": "user", "content": it}) for it in draft.spoken])
    words = [*verbatim_user_texts(earlier, 0, len(earlier), room, count), *words]
    known = "\n".join([summary, *words])
    messages = [*earlier.messages, *draft.originals(start, plan.end)]
    lost = ledger(messages, known, ledger_tokens(draft.budget), count)
    return folded_text(with_ledger(summary, lost), words)


class SummaryQuery:
    """One model, asked in one shape."""

    def __init__(
        self, draft: SummaryDraft, summary_model: SummaryModel, shape: Shape, services: Services
    ) -> None:
        self._draft = draft
        self._summary_model = summary_model
        self._shape = shape
        self._services = services
        self._nonce = secrets.token_hex(8)
        self._unwanted = services.summaries.unwanted.get(summary_model.name) or frozenset()
        policy = draft.compaction.policy.summary
        self._cap = min(
            policy.summary_tokens(draft.budget), summary_model.window // LARGEST_ANSWER_SHARE
        )
        self._instruction = instruction(
            template=policy.instruction, previous=bool(draft.previous), extra=draft.wish
        )

    async def ask(self, plan: Plan) -> tuple[str, Plan]:
        """Return the summary and the span that it stands for, or raise SummaryFailed.

        A model that answers nothing, or does not come to an end, is asked about less.
        """
        span = plan
        for _ in range(MOST_TRIES):
            span, room = await self._fitted(span)
            judged = await self._judged(span, room)
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
        """Return a span that the model's window takes, and the room for its answer.

        Strictly: prompt + answer < window, as vLLM refuses a prompt that fills it.
        """
        for _ in range(MOST_TRIES):
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
        """Return the span's tokens that would fit; a transcript has fewer than were sent."""
        if self._shape == "ride":
            return span - (self._cap - room)
        return span * max(0, self._summary_model.window - 1 - self._cap) // prompt

    async def _prompt_tokens(self, plan: Plan) -> int:
        """Return the tokens of the question, rather too many."""
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

    async def _judged(self, plan: Plan, room: int) -> Verdict:
        """Ask, and once more if only some sections are missing."""
        prompt = await asyncio.to_thread(self._prompt, plan)
        answer = await self._paid_answer(plan, prompt, room)
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
        return await self._judge(plan, await self._paid_answer(plan, again, min(room, left)))

    async def _paid_answer(self, plan: Plan, prompt: Prompt, max_tokens: int) -> Completion:
        """Ask at the tenant's expense, or raise SummaryFailed when that is used up."""
        budget, tenant = self._services.summary_tokens, self._draft.compaction.tenant
        if not budget.allows(tenant):
            raise SummaryFailed("tenant_budget")
        # Before it is known, so that many at once do not each find the budget whole.
        guess = self._draft.span_tokens(plan) + max_tokens
        budget.spend(tenant, guess)
        try:
            answer = await self._answer(plan, prompt, max_tokens)
        except SummaryFailed:
            budget.spend(tenant, -guess)
            raise
        if answer.usage is not None:
            used = answer.usage.prompt_tokens + answer.usage.completion_tokens
            budget.spend(tenant, used - guess)
        return answer

    async def _answer(self, plan: Plan, prompt: Prompt, max_tokens: int) -> Completion:
        """Send the question, or raise SummaryFailed."""
        compaction, summary_model = self._draft.compaction, self._summary_model
        options = QueryOptions(summary_model, max_tokens, self._unwanted)
        if self._shape == "ride":
            body = ride(compaction, self._draft.seen(plan), prompt, options)
        else:
            body = rendered(compaction, prompt, options)
        breaker = self._services.summaries.breakers.of(summary_model.name)
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
                if self._gives_up_fields(refusal):
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

    def _gives_up_fields(self, refusal: NotAnswered) -> bool:
        """Leave out, from now on, what this model will not have; return whether that is news."""
        refused = self._unwanted | refused_fields(refusal.status, refusal.said)
        is_news = refused != self._unwanted
        self._unwanted = refused
        if is_news:
            self._services.summaries.unwanted.put(self._summary_model.name, refused)
        return is_news

    async def _judge(self, plan: Plan, answer: Completion) -> Verdict:
        draft = self._draft
        said = SummaryAnswer(answer.text, answer.finish_reason, answer.calls_tools, answer.refuses)
        source = text_of(draft.seen(plan)) + "\n" + draft.previous
        replaced = draft.span_tokens(plan) + draft.request_counter.count(draft.previous)
        return await asyncio.to_thread(verdict, said, source, replaced, draft.request_counter.count)

    def _prompt(self, plan: Plan) -> Prompt:
        if self._shape == "ride":
            return [{"role": "user", "content": self._instruction}]
        return self._transcript_prompt(plan)

    def _transcript_prompt(self, plan: Plan) -> Prompt:
        draft = self._draft
        messages = draft.applied.unfolded.messages[plan.start : plan.end]
        written = transcript(messages, self._nonce)
        return transcript_prompt(self._instruction, written, draft.previous or None, self._nonce)


def text_of(conversation: Conversation) -> str:
    """Return all that was said, without media."""
    return "\n".join(text for message in conversation.messages for _, text in message.pieces())
