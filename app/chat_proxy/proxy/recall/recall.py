"""The recalls of one request: answered from its conversation, and remembered for later ones."""

import asyncio
from dataclasses import dataclass, field
from functools import partial

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.recall.recallable import NOT_NOW, Recallable
from chat_proxy.compaction.recall.references import reference
from chat_proxy.compaction.recall.tool import Wish, wish_of
from chat_proxy.proxy.recall.exchanges import Exchange, Exchanges
from chat_proxy.proxy.recall.originals import offload_number, recallable_of
from chat_proxy.proxy.recall.restore import history_of_exchange
from chat_proxy.proxy.session.offloads import Offloads
from chat_proxy.proxy.session.output import output_fields, output_left
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult
from chat_proxy.proxy.sizing.request_counter import RequestCounter
from chat_proxy.proxy.sizing.tokenizers import Tokenizers
from chat_proxy.telemetry.logs import log_exception
from chat_proxy.telemetry.metrics import Metrics
from chat_proxy.telemetry.record import RequestRecord
from chat_proxy.wires.body import own_fields, wire_of
from chat_proxy.wires.own_calls.edit import OwnCall, OwnCallEdit, Round
from chat_proxy.wires.reading import Fields

OFFLOAD_ID_CHARS = 32
CALL_TOKENS = 16
"""About the tokens of a call and its result beside their texts."""


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
    record: RequestRecord
    services: RecallServices
    recalled_tokens: int = 0
    """The tokens that calls and their results have added to the prompt."""
    said_tokens: int = 0
    """The tokens of the answers before, which are part of the prompt as well."""
    rounds: list[Round] = field(default_factory=list)

    async def answer(self) -> list[str]:
        """Return the results of the calls, within the room that is left in the window."""
        calls = self.edit.calls
        before = self.recalled_tokens
        self.said_tokens = max(self.said_tokens, self.record.completion_tokens)
        try:
            texts = await self._answers(calls)
        except Exception as error:  # noqa: BLE001 - features fail open: the model goes on without
            log_exception("earlier messages could not be recalled", error)
            texts = [NOT_NOW] * len(calls)
        record, metrics = self.record, self.services.metrics
        recalled = self.recalled_tokens - before
        record.recalls += len(calls)
        record.recall_rounds += 1
        record.recall_tokens += recalled
        metrics.recalls.inc(len(calls))
        metrics.recall_rounds.inc()
        metrics.recall_tokens.inc(recalled)
        return texts

    async def finish(self) -> None:
        """Remember the exchange before the client can send its next request.

        Calls beside the client's own are answered now, for that request.
        """
        edit = self.edit
        try:
            if edit.calls and edit.may_go_on:
                texts = await self.answer()
                self.rounds.append(Round([*edit.said(), *edit.results(texts)], edit.shown))
            if self.rounds:
                await self._keep()
        except Exception as error:  # noqa: BLE001 - features fail open: the answer itself is whole
            log_exception("an exchange could not be kept", error)

    def lowered_output(self) -> Fields:
        """Return the fields of the body that limit the answer to what is left of the window."""
        compaction = self.compaction
        budget, wire = compaction.measured.budget, wire_of(compaction.request)
        if budget is None or not compaction.policy.clips_output:
            return {}
        left = output_left(budget.window, self._prompt_tokens, budget.least_answer)
        asked = output_fields(compaction) | dict(self.result.output)
        lowered = {name: min(wanted, left) for name, wanted in asked.items() if wanted > 0}
        if lowered == asked:
            return {}
        return wire.lowered(own_fields(compaction.request), lowered)

    async def _answers(self, calls: list[OwnCall]) -> list[str]:
        originals = await recallable_of(self.compaction, self.result, self.services.offloads)
        counter = RequestCounter(
            self.compaction.request, self.compaction.measured, self.services.tokenizers
        )
        count = partial(counter.count, ratio=self.result.token_count.ratio)
        texts = []
        for position, call in enumerate(calls):
            room = self._room(len(calls) - position)
            text = await asyncio.to_thread(self._answer, originals, call, room, count)
            self.recalled_tokens += count(text) + count(call.arguments) + CALL_TOKENS
            texts.append(text)
        return texts

    def _answer(
        self, originals: Recallable, call: OwnCall, room: int, count: "partial[int]"
    ) -> str:
        return originals.answer(self._wish(call), room, count)

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
        return min(most, (budget.limit - self._prompt_tokens) // calls)

    @property
    def _prompt_tokens(self) -> int:
        return self.result.token_count.tokens + self.recalled_tokens + self.said_tokens

    async def _keep(self) -> None:
        """Remember the exchange by the history that the client will send, the answer included."""
        client, route = self.client, self.compaction.route
        wire, fields = wire_of(client), own_fields(client)
        given = fields.get(wire.key)
        items = (
            given if type(given) is list else [wire.new_item({"role": "user", "content": given})]
        )
        reading = wire.read({**fields, wire.key: [*items, *self.edit.answer()]})
        conversation = Conversation.of(reading.messages)
        before = client.conversation
        if conversation is None or before is None or len(conversation) <= len(before):
            return
        scope, exchanges = self.compaction.scope, self.services.exchanges
        history = await history_of_exchange(
            conversation, route, scope, exchanges, client.work_bytes
        )
        messages = len(conversation) - len(before)
        await exchanges.keep(
            scope, history, len(conversation) - 1, Exchange(wire.name, messages, self.rounds)
        )
