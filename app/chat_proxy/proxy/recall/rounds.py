"""Answer the model's calls of the recall tool and ask it again; the client sees one answer."""

import asyncio
from dataclasses import dataclass, field
from functools import partial

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.recall.recallable import NO_ROOM, Recallable
from chat_proxy.compaction.recall.references import TOOL_NAME, reference
from chat_proxy.compaction.recall.tool import Wish, wish_of
from chat_proxy.proxy.forwarding.refusals import TooLong
from chat_proxy.proxy.forwarding.relay_chat import RelayChat
from chat_proxy.proxy.forwarding.send import Forwarding, call_of, send_and_relay
from chat_proxy.proxy.recall.exchanges import Exchange, Exchanges
from chat_proxy.proxy.recall.originals import offload_number, recallable_of
from chat_proxy.proxy.recall.restore import history_of_exchange
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.session.offloads import Offloads
from chat_proxy.proxy.session.output import recalls
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.sizing.request_counter import RequestCounter
from chat_proxy.proxy.sizing.tokenizers import Tokenizers
from chat_proxy.telemetry.logs import log_exception
from chat_proxy.telemetry.metrics import Metrics
from chat_proxy.wires.body import continued_body, own_fields, wire_of
from chat_proxy.wires.own_calls.edit import OwnCall, OwnCallEdit, Round
from chat_proxy.wires.usage import Usage

OFFLOAD_ID_CHARS = 32


@dataclass(frozen=True, slots=True)
class RecallServices:
    """What recalls are answered with."""

    exchanges: Exchanges
    offloads: Offloads
    tokenizers: Tokenizers
    metrics: Metrics


@dataclass(slots=True)
class Recall:
    """The recalls of one request."""

    client: ChatRequest
    """The request as the client sent it, without earlier exchanges."""
    compaction: CompactionRequest
    result: CompactionResult
    edit: OwnCallEdit
    services: RecallServices
    context: RequestContext
    used_tokens: int = 0
    """The tokens that recalled texts have added to the prompt."""
    rounds: list[Round] = field(default_factory=list)

    async def answer(self, calls: list[OwnCall]) -> list[str]:
        """Return the results of the calls, within the room that is left in the window."""
        originals = await recallable_of(self.compaction, self.result, self.services.offloads)
        counter = RequestCounter(
            self.compaction.request, self.compaction.measured, self.services.tokenizers
        )
        count = partial(counter.count, ratio=self.result.token_count.ratio)
        texts = []
        for position, call in enumerate(calls):
            room = self._room(len(calls) - position)
            wish = await asyncio.to_thread(self._wish, call)
            text = await asyncio.to_thread(_answer, originals, wish, room, count)
            self.used_tokens += count(text) + count(call.arguments) + 16
            texts.append(text)
        return texts

    async def keep(self) -> None:
        """Keep the exchange whose last answer is complete; the client gets its end afterwards.

        A client that has the end may ask again at once, and the next prompt begins as this one.
        """
        edit = self.edit
        try:
            if edit.calls and edit.may_go_on:
                # The model called the client's tools too: its own calls are answered for the next
                # request.
                texts = await self.answer(edit.calls)
                self.rounds.append(Round([*edit.said(), *edit.results(texts)], edit.shown))
                self.record(len(edit.calls))
            if self.rounds:
                await _keep(self)
        except Exception as error:  # noqa: BLE001 - features fail open: the answer is complete
            log_exception("recalled messages could not be kept", error)

    def record(self, calls: int) -> None:
        """Record so many answered calls."""
        record, metrics = self.context.record, self.services.metrics
        record.recalls += calls
        record.recall_rounds = len(self.rounds)
        metrics.recalls.inc(calls)
        metrics.recall_tokens.inc(self.used_tokens - record.recall_tokens)
        record.recall_tokens = self.used_tokens

    def _wish(self, call: OwnCall) -> Wish | None:
        """Return what a call asks for; offload ids in notes of this conversation are ids too."""
        wish = wish_of(call.arguments)
        if wish is None or len(wish.name) != OFFLOAD_ID_CHARS:
            return wish
        number = offload_number(self.compaction, self.result, self.services.offloads, wish.name)
        return wish if number is None else wish._replace(name=reference(number))

    def _room(self, calls: int) -> int:
        """Return the tokens that one of so many results may have."""
        most, budget = self.compaction.policy.recall.max_tokens, self.compaction.measured.budget
        if budget is None:
            return most
        left = budget.limit - self.result.token_count.tokens - self.used_tokens
        return min(most, left // calls)


def start_recall(
    client: ChatRequest,
    compaction: CompactionRequest,
    result: CompactionResult,
    context: RequestContext,
    services: RecallServices,
) -> Recall | None:
    """Expect questions in the answer to a request if it offers the tool; None if it does not."""
    if not recalls(compaction, result):
        context.edits, context.before_end = (), None
        return None
    edit = context.wire.own_calls(TOOL_NAME)
    recall = Recall(client, compaction, result, edit, services, context)
    context.edits, context.before_end = (edit,), recall.keep
    return recall


def _answer(originals: Recallable, wish: Wish | None, room: int, count: "partial[int]") -> str:
    return originals.answer(wish, room, count)


async def answer_recalls(
    recall: Recall, body: bytes, context: RequestContext, forwarding: Forwarding
) -> None:
    """Answer calls until the model has given its answer, at most so often as its policy allows."""
    edit, route, record = recall.edit, recall.compaction.route, context.record
    usage = Usage(record.prompt_tokens, record.completion_tokens, record.cached_tokens)
    while edit.goes_on:
        calls = edit.calls
        texts = await recall.answer(calls)
        is_last = len(recall.rounds) + 1 >= route.policy.recall.max_rounds
        sent = await _send_round(recall, body, texts, context, forwarding, is_last=is_last)
        if sent is None:
            return
        body = sent
        recall.record(len(calls))
        usage = Usage(
            usage.prompt_tokens + record.prompt_tokens,
            usage.completion_tokens + record.completion_tokens,
            usage.cached_tokens + record.cached_tokens,
        )
        record.set_usage(*usage)


async def _send_round(
    recall: Recall,
    body: bytes,
    texts: list[str],
    context: RequestContext,
    forwarding: Forwarding,
    *,
    is_last: bool,
) -> bytes | None:
    """Send the results and relay what follows; return the body that was sent.

    Results that make the prompt too long are replaced by a word that there is no room for them.
    Returns None if the client got the upstream's refusal.
    """
    edit, wire, route = recall.edit, context.wire, recall.compaction.route
    said, shown = edit.said(), edit.shown
    results = [edit.results(texts), edit.results([NO_ROOM] * len(texts))]
    edit.next_round()
    edit.may_go_on = not is_last
    for attempt, items in enumerate(results):
        sent = continued_body(wire, body, [*said, *items], TOOL_NAME if is_last else "")
        relay = RelayChat(context, forwarding.policy, holds_overflows=True, sent=sent)
        recall.rounds.append(Round([*said, *items], shown))
        try:
            await send_and_relay(
                call_of(wire.path, sent, route, context), relay, context, forwarding
            )
        except TooLong as too_long:
            recall.rounds.pop()
            if attempt:
                await relay.send_refusal(too_long)
            continue
        return sent
    return None


async def _keep(recall: Recall) -> None:
    """Remember the exchange by the history that the client will send: its own, and the answer."""
    client, route = recall.client, recall.compaction.route
    wire, fields = wire_of(client), own_fields(client)
    given = fields.get(wire.key)
    items = given if type(given) is list else [wire.new_item({"role": "user", "content": given})]
    reading = wire.read({**fields, wire.key: [*items, *recall.edit.answer()]})
    conversation = Conversation.of(reading.messages)
    if conversation is None:
        return
    scope, exchanges = recall.compaction.scope, recall.services.exchanges
    history = await history_of_exchange(conversation, route, scope, exchanges, client.work_bytes)
    before = client.conversation
    messages = len(conversation) - (len(before) if before is not None else 0)
    exchange = Exchange(wire.name, messages, recall.rounds)
    await exchanges.keep(scope, history.links[-1], exchange)
