"""Weighs a request's conversation, as it came and as it became, in its upstream's own tokens."""

from functools import partial
from math import ceil

from app.chat.conversation import Conversation
from app.chat.request import ChatRequest
from app.compaction.budget import Budget
from app.compaction.pressure import Pressure
from app.proxy.measure import Measured, Weight
from app.proxy.tokenizers import Tokenizers, definitions_of
from app.tokens.counter import count_request, media_tokens


class Scales:
    """Weighs the conversations of one request."""

    def __init__(self, request: ChatRequest, measured: Measured, tokenizers: Tokenizers) -> None:
        self._request = request
        self._measured = measured
        self._tokenizers = tokenizers
        self._counter = tokenizers.of(measured.rules)

    async def weigh(self, conversation: Conversation) -> Weight:
        """Return the request's tokens with this conversation."""
        measured = self._measured
        if conversation is measured.conversation:
            return measured.weight
        count = await self._tokenizers.count(self._request, conversation, measured.rules)
        return Weight(count, measured.calibration.estimate(count))

    def weigh_here(self, conversation: Conversation) -> Weight:
        """Return the same, however long it takes: for a thread."""
        tools, choice, form, _ = definitions_of(self._request.options, conversation)
        count = count_request(
            conversation.messages,
            tools,
            self._counter,
            self._measured.rules,
            tool_choice=choice,
            response_format=form,
        )
        return Weight(count, self._measured.calibration.estimate(count))

    def pressure_on(self, conversation: Conversation, budget: Budget) -> Pressure:
        """Return how hard the conversation presses against its window; for a thread."""
        weight = self.weigh_here(conversation)
        return Pressure(
            budget,
            weight.sizes,
            partial(self.count, ratio=weight.ratio),
            partial(self._media_of, conversation, weight.ratio),
            weight.tokens - budget.target,
        )

    def count(self, text: str, ratio: float = 1.0) -> int:
        """Return a text's tokens."""
        return ceil(self._counter.count(text) * ratio)

    def _media_of(self, conversation: Conversation, ratio: float, index: int) -> list[int]:
        rules = self._measured.rules
        media = conversation.messages[index].media()
        return [ceil(media_tokens(medium, rules) * ratio) for medium in media]
