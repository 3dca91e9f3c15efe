"""Token counts of a request's conversation, before and after compaction, as its upstream counts."""

from math import ceil

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.media import Media
from chat_proxy.proxy.sizing.measure import Measured, TokenCount
from chat_proxy.proxy.sizing.tokenizers import Tokenizers, definitions_of
from chat_proxy.tokens.counter import count_request
from chat_proxy.tokens.images.fit import Fit, fit
from chat_proxy.tokens.images.media import media_tokens
from chat_proxy.tokens.images.size import image_size


class RequestCounter:
    """Count the tokens of one request with different conversations."""

    def __init__(self, request: ChatRequest, measured: Measured, tokenizers: Tokenizers) -> None:
        self._request = request
        self._measured = measured
        self._tokenizers = tokenizers
        self._counter = tokenizers.of(measured.rules, request.salt)

    async def count_conversation(self, conversation: Conversation) -> TokenCount:
        """Return the request's tokens with this conversation."""
        measured = self._measured
        if conversation is measured.conversation:
            return measured.token_count
        count = await self._tokenizers.count(self._request, conversation, measured.rules)
        return TokenCount(count, measured.calibration.estimate(count))

    def count_conversation_in_thread(self, conversation: Conversation) -> TokenCount:
        """Return the same without yielding to the event loop: call it in a thread."""
        tools, choice, form, _ = definitions_of(self._request.options, conversation)
        count = count_request(
            conversation.messages,
            tools,
            self._counter,
            self._measured.rules,
            tool_choice=choice,
            response_format=form,
        )
        return TokenCount(count, self._measured.calibration.estimate(count))

    def count(self, text: str, ratio: float = 1.0) -> int:
        """Return the tokens of a text, times `ratio`."""
        return ceil(self._counter.count(text) * ratio)

    def media_sizes(self, conversation: Conversation, ratio: float, index: int) -> list[int]:
        """Return the tokens of each medium of a message, times `ratio`."""
        rules = self._measured.rules
        media = conversation.messages[index].media()
        return [ceil(media_tokens(medium, rules) * ratio) for medium in media]

    def fit(self, medium: Media, max_tokens: int, ratio: float) -> Fit | None:
        """Return the largest smaller form of an image with at most so many tokens, if any."""
        size = image_size(medium.data)
        if size is None:
            return None
        family = self._measured.rules.image_family
        smaller = fit(size, medium.detail, family, int(max_tokens / ratio))
        return None if smaller is None else Fit(smaller.side, ceil(smaller.tokens * ratio))
