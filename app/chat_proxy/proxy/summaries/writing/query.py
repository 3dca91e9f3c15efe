"""Query one model for a summary in one shape, and validate its answer."""

import asyncio
import secrets
from dataclasses import replace
from functools import partial

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.summary.prompt import (
    instruction,
    repair_instruction,
    short_instruction,
)
from chat_proxy.compaction.summary.transcript import (
    MAX_RESULT_CHARS,
    originals_prompt,
    transcript,
    transcript_prompt,
)
from chat_proxy.compaction.summary.validation.task import is_talk, summary_task
from chat_proxy.compaction.summary.validation.template import sections_of
from chat_proxy.compaction.summary.validation.validate import SummaryAnswer, Verdict, verdict
from chat_proxy.proxy.summaries.draft import Span, SummaryDraft, shrunk
from chat_proxy.proxy.summaries.failure import SummaryFailed
from chat_proxy.proxy.summaries.services import SummaryServices
from chat_proxy.proxy.summaries.writing.ability import Style
from chat_proxy.proxy.summaries.writing.ask_model import ask_model
from chat_proxy.proxy.summaries.writing.models import Shape, SummaryModel
from chat_proxy.proxy.summaries.writing.request import Prompt, QueryOptions, rendered, ride
from chat_proxy.wires.answers import Completion

MAX_TRIES = 3
WORTH_A_SHORTER_TRY = ("empty", "only_reasoning", "length")
LEAST_ANSWER_TOKENS = 256
LARGEST_ANSWER_SHARE = 4
"""The window divided by this is the maximum answer, so that a small window can hold a prompt."""
MARGIN_TOKENS = 64
MARGIN_SHARE = 0.02
MARGIN_ELSEWHERE = 0.1
WHOLE_RESULT_CHARS = 400_000


class SummaryQuery:
    """The query of one model in one shape; `part` is its number among parallel queries."""

    def __init__(
        self,
        draft: SummaryDraft,
        summary_model: SummaryModel,
        shape: Shape,
        services: SummaryServices,
        style: Style = "full",
        part: tuple[int, int] = (0, 1),
    ) -> None:
        self._draft = draft
        self._summary_model = summary_model
        self._shape = shape
        self._services = services
        self._style = style
        self._nonce = secrets.token_hex(8)
        self._result_chars = WHOLE_RESULT_CHARS
        self._policy = draft.session.compaction.policy.summary
        number, parts = part
        cap = self._policy.summary_tokens(draft.session.budget)
        if parts > 1:
            cap = max(LEAST_ANSWER_TOKENS, 2 * cap // parts)
        self._cap = min(cap, summary_model.window // LARGEST_ANSWER_SHARE)
        self._previous = draft.previous if number == 0 and parts == 1 else ""
        self._sections = sections_of(self._policy.instruction)
        # How another model counts is not known; the margin for it is larger.
        ratio = draft.session.trimmed.token_count.ratio if summary_model.is_own else 1.0
        self._count = partial(draft.session.request_counter.count, ratio=ratio)

    def fits(self, span: Span) -> bool:
        """Return whether one query shows the whole span; it counts tokens: call it in a thread."""
        room = self._summary_model.window - self._prompt_tokens(span) - 1
        return room >= min(self._cap, LEAST_ANSWER_TOKENS)

    async def ask(self, span: Span) -> tuple[str, Span]:
        """Return the summary and the span that it covers, or raise SummaryFailed.

        After an empty or an unfinished answer the model gets a shorter span.
        """
        draft = self._draft
        for _ in range(MAX_TRIES):
            span, max_tokens = await asyncio.to_thread(self._fitted, span)
            judged = await self._judged(span, max_tokens)
            if judged.ok:
                return judged.text, span
            if judged.reason not in WORTH_A_SHORTER_TRY:
                break
            half = draft.span_tokens(span) // 2
            shorter = shrunk(span, draft.conversation, draft.sizes, half)
            if shorter is None:
                break
            span = shorter
        raise SummaryFailed(judged.reason)

    def _fitted(self, span: Span) -> tuple[Span, int]:
        """Return a span that fits the model's window, and the maximum tokens of the answer.

        Strictly: prompt + answer < window, as vLLM refuses a prompt that fills it. Results are
        shown whole; only where a single step does not fit, they are cut.
        """
        draft = self._draft
        for result_chars in (WHOLE_RESULT_CHARS, MAX_RESULT_CHARS):
            self._result_chars = result_chars
            fitting: Span | None = span
            for _ in range(MAX_TRIES):
                if fitting is None:
                    break
                prompt = self._prompt_tokens(fitting)
                room = self._summary_model.window - prompt - 1
                if room >= min(self._cap, LEAST_ANSWER_TOKENS):
                    return fitting, min(self._cap, room)
                left = self._span_left(draft.span_tokens(fitting), prompt, room)
                fitting = shrunk(fitting, draft.conversation, draft.sizes, left)
        raise SummaryFailed("window")

    def _span_left(self, span: int, prompt: int, room: int) -> int:
        """Return how many of the span's tokens would fit; a transcript has fewer than were sent."""
        if self._shape == "ride":
            return span - (self._cap - room)
        return span * max(0, self._summary_model.window - 1 - self._cap) // prompt

    def _prompt_tokens(self, span: Span) -> int:
        """Return the tokens of the query, with a safety margin; call it in a thread."""
        tokens = sum(self._count(message["content"]) for message in self._prompt(span))
        if self._shape == "ride":
            counter = self._draft.session.request_counter
            tokens += counter.count_conversation_in_thread(self._draft.seen(span)).tokens
            return int(tokens * (1 + MARGIN_SHARE)) + MARGIN_TOKENS
        return int(tokens * (1 + MARGIN_ELSEWHERE)) + MARGIN_TOKENS

    async def _judged(self, span: Span, max_tokens: int) -> Verdict:
        """Query the model and validate the answer; repeat once if most sections are missing."""
        prompt = await asyncio.to_thread(self._prompt, span)
        answer = await self._answer(span, prompt, max_tokens)
        if self._shape == "ride" and answer.usage is not None:
            added = await asyncio.to_thread(self._added_tokens, span, prompt)
            repeated = answer.usage.prompt_tokens - added
            model = self._summary_model
            self._services.ride_shares.observe(
                model.base_url, model.model, answer.cached_tokens, repeated
            )
        judged = await asyncio.to_thread(self._judge, span, answer)
        if judged.reason != "sections":
            return judged
        again: Prompt = [
            *prompt,
            {"role": "assistant", "content": answer.text},
            {"role": "user", "content": repair_instruction(judged.missing, self._sections)},
        ]
        spent = self._count(answer.text + again[-1]["content"]) + MARGIN_TOKENS
        taken = await asyncio.to_thread(self._prompt_tokens, span)
        left = self._summary_model.window - taken - spent
        if left < LEAST_ANSWER_TOKENS:
            return judged
        answer = await self._answer(span, again, min(max_tokens, left))
        return await asyncio.to_thread(self._judge, span, answer)

    def _added_tokens(self, span: Span, prompt: Prompt) -> int:
        """Return the tokens of the originals in a ride, which no cache can have."""
        return self._count(prompt[-1]["content"]) - self._count(self._instruction(span))

    async def _answer(self, span: Span, prompt: Prompt, max_tokens: int) -> Completion:
        compaction = self._draft.session.compaction
        answer = await ask_model(
            self._summary_model,
            self._shape,
            compaction,
            partial(self._body, span, prompt, max_tokens),
            self._draft.span_tokens(span) + max_tokens,
            self._services,
        )
        return answer.limited_to(max_tokens)

    def _body(self, span: Span, prompt: Prompt, max_tokens: int, rejected: frozenset[str]) -> bytes:
        compaction = self._draft.session.compaction
        options = QueryOptions(self._summary_model, max_tokens, rejected)
        if self._shape == "ride":
            return ride(compaction, self._draft.seen(span), prompt, options)
        return rendered(compaction, prompt, options)

    def _judge(self, span: Span, answer: Completion) -> Verdict:
        draft = self._draft
        given = SummaryAnswer(answer.text, answer.finish_reason, answer.calls_tools, answer.refuses)
        originals = draft.originals(span)
        shown = Conversation([*draft.seen(span).messages, *originals])
        replaced = draft.span_tokens(span) + self._count(self._previous)
        task = summary_task(
            shown,
            originals,
            self._previous,
            replaced,
            self._sections,
        )
        task = replace(task, needs_sections=self._style == "full", has_wish=bool(self._draft.wish))
        return verdict(given, task, self._count)

    def _prompt(self, span: Span) -> Prompt:
        """Return the messages of the query behind what the upstream's cache has."""
        draft = self._draft
        if self._shape == "ride":
            unseen = transcript(
                draft.unseen(span), self._nonce, max_result_chars=self._result_chars
            )
            text = originals_prompt(self._instruction(span), unseen, self._nonce)
            return [{"role": "user", "content": text}]
        text = transcript(draft.originals(span), self._nonce, max_result_chars=self._result_chars)
        return transcript_prompt(self._instruction(span), text, self._previous or None, self._nonce)

    def _instruction(self, span: Span) -> str:
        has_previous, wish = bool(self._previous), self._draft.wish
        if self._style == "short":
            return short_instruction(previous=has_previous, extra=wish)
        return instruction(
            template=self._policy.instruction,
            previous=has_previous,
            extra=wish,
            is_talk=is_talk(self._draft.originals(span)),
        )
