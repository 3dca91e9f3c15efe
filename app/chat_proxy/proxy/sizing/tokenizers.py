"""The tokenizers of this process: loaded behind the scenes, and large counts made in threads."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NoReturn

from chat_proxy.caches import GenerationCache
from chat_proxy.chat.body.prefixes import NOTHING
from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.conversation import Conversation
from chat_proxy.telemetry.logs import WARNING, log
from chat_proxy.tokens.counter import (
    NOTHING_COUNTED,
    NOTHING_DEFINED,
    Definitions,
    Fields,
    RequestCount,
    count_messages,
    count_within,
)
from chat_proxy.tokens.overheads import CountingRules
from chat_proxy.tokens.tiktoken_counter import TiktokenCounter
from chat_proxy.tokens.token_counter import TokenCounter

INLINE_BYTES = 1024 * 1024
INLINE_MESSAGES = 2_000
INLINE_CHARS = 16 * 1024
THREADS = 2
MAX_MESSAGES = 500_000


class Tokenizers:
    """Gives out counters by rules; one that is not loaded yet guesses.

    Each encoding has two, which share it: one takes digits as it does, the other one by one.
    """

    def __init__(self) -> None:
        self._counters: dict[tuple[str, bool], TiktokenCounter] = {}
        self._hasty: dict[tuple[str, bool], _Hasty] = {}
        self._loads: dict[str, asyncio.Task[None]] = {}
        self._beginnings: GenerationCache[RequestCount] = GenerationCache(MAX_MESSAGES, _weight_of)
        self._threads = ThreadPoolExecutor(THREADS, "tokens")

    def of(self, rules: CountingRules) -> TiktokenCounter:
        """Return the counter for these rules, and begin to load it when it is asked for first."""
        if rules.encoding not in self._loads:
            self._add(rules.encoding)
        return self._counters[rules.encoding, rules.single_digits]

    async def loaded(self, encoding: str) -> TiktokenCounter:
        """Return the encoding's own counter when it is loaded, or cannot be."""
        counter = self.of(CountingRules(encoding))
        await asyncio.wait({self._loads[encoding]})
        return counter

    async def close(self) -> None:
        """Wait until nothing is being loaded or counted."""
        await asyncio.gather(*self._loads.values(), return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    async def count(
        self, request: ChatRequest, conversation: Conversation, rules: CountingRules
    ) -> RequestCount:
        """Count a request's tokens with this conversation; much that is new in a thread."""
        count = self.count_at_once(request, conversation, rules)
        if count is None:
            work = partial(self._count, request, conversation, self.of(rules), rules, None)
            count = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        assert count is not None
        return count

    def count_at_once(
        self, request: ChatRequest, conversation: Conversation, rules: CountingRules
    ) -> RequestCount | None:
        """Count the same if that takes no longer than the event loop can wait."""
        if not _is_small(request, conversation):
            return None
        if rules.encoding not in self._loads:
            self._add(rules.encoding)
        hasty = self._hasty[rules.encoding, rules.single_digits]
        try:
            return self._count(request, conversation, hasty, rules, INLINE_CHARS)
        except _TooMuch:
            return None

    def _count(
        self,
        request: ChatRequest,
        conversation: Conversation,
        counter: TokenCounter,
        rules: CountingRules,
        max_cold_chars: int | None,
    ) -> RequestCount | None:
        """Count what is new since the conversation was shorter; nothing if that is too much."""
        if conversation.beginning is NOTHING and request.lasting is NOTHING:
            definitions = definitions_of(request.options, conversation)
            return count_within(
                conversation.fields, definitions, counter, rules, max_cold_chars=max_cold_chars
            )
        messages, known = self._since(conversation, rules)
        lasting = request.lasting if conversation is request.conversation else NOTHING
        if lasting.messages > len(known.messages):
            new = lasting.messages - len(known.messages)
            counted = count_messages(
                messages[:new], counter, rules, max_cold_chars=max_cold_chars, known=known
            )
            if counted is None:
                return None
            if not counted.is_guess:
                self._beginnings.remember((lasting.key, rules), counted)
            messages, known = messages[new:], counted
        definitions = definitions_of(request.options, conversation)
        return count_within(
            messages, definitions, counter, rules, max_cold_chars=max_cold_chars, known=known
        )

    def _since(
        self, conversation: Conversation, rules: CountingRules
    ) -> tuple[Sequence[Fields], RequestCount]:
        """Return the messages that are to be counted, and the count of those before."""
        begun = conversation.beginning
        known = self._beginnings.recall((begun.key, rules)) if begun.messages else None
        if known is None:
            return conversation.fields, NOTHING_COUNTED
        return conversation.rest, known

    def _add(self, encoding: str) -> None:
        for single_digits in (False, True):
            counter = TiktokenCounter(encoding, single_digits=single_digits)
            self._counters[encoding, single_digits] = counter
            self._hasty[encoding, single_digits] = _Hasty(counter)
        self._loads[encoding] = asyncio.create_task(self._load(encoding))

    async def _load(self, encoding: str) -> None:
        """Load both counters of an encoding, one behind the other: it is built once."""
        loop = asyncio.get_running_loop()
        counter = self._counters[encoding, False]
        if await loop.run_in_executor(self._threads, counter.load):
            self._counters[encoding, True].load()
        else:
            log(
                "a tokenizer cannot be loaded: tokens are guessed",
                WARNING,
                encoding=counter.encoding_name,
                reason=counter.failure,
            )


def definitions_of(options: Fields, conversation: Conversation) -> Definitions:
    """Return what a request defines, in today's form or the legacy one."""
    tools = options.get("tools") or options.get("functions")
    form = options.get("response_format")
    if not tools and form is None:
        return NOTHING_DEFINED
    return Definitions(tools, options.get("tool_choice"), form, conversation.shape.is_led)


def _weight_of(count: RequestCount) -> int:
    """Return how much room a count takes, in messages: that of a few is more than their numbers."""
    return 50 + len(count.messages)


def _is_small(request: ChatRequest, conversation: Conversation) -> bool:
    """Tell whether a request does not hold up the event loop when its texts are known."""
    return len(request.body) <= INLINE_BYTES and len(conversation.origins) <= INLINE_MESSAGES


class _TooMuch(Exception):
    """What is to be counted is new, and may be long."""


class _Hasty:
    """A counter that raises rather than count new tools, or a new text that is long."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self.known = counter.known
        self.counts = counter.counts
        self.counts_within = counter.counts_within

    @property
    def is_loaded(self) -> bool:
        """Whether counts are real and not guessed."""
        return self._counter.is_loaded

    def count(self, text: str) -> int:
        """Return the tokens of a text that is short or known."""
        if len(text) > INLINE_CHARS and self._counter.known(text) is None:
            raise _TooMuch
        return self._counter.count(text)

    def remembered(self, key: Hashable, work: Callable[[], int]) -> int:  # noqa: ARG002 - too much
        """Return what the key's work came to before."""
        return self._counter.remembered(key, _refuse)


def _refuse() -> NoReturn:
    raise _TooMuch
