"""The tokenizers of this process: loaded in the background, with large counts in threads."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NoReturn

from chat_proxy.caches import GenerationCache
from chat_proxy.chat.body.prefixes import NOTHING
from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.conversation import Conversation
from chat_proxy.proxy.lifecycle.fair_slots import FairSlots
from chat_proxy.telemetry.logs import WARNING, log
from chat_proxy.tokens.counter import (
    NOTHING_COUNTED,
    Fields,
    RequestCount,
    count_messages,
    count_within,
)
from chat_proxy.tokens.overheads import CountingRules
from chat_proxy.tokens.tiktoken_counter import SaltedCounter, TiktokenCounter
from chat_proxy.tokens.token_counter import TokenCounter
from chat_proxy.tokens.tools import NOTHING_DEFINED, Definitions

INLINE_BYTES = 1024 * 1024
INLINE_MESSAGES = 2_000
INLINE_VALUES = 10_000
INLINE_CHARS = 16 * 1024
THREADS = 3
TENANT_THREADS = 2
MAX_MESSAGES = 500_000


class Tokenizers:
    """Provide token counters by counting rules; a counter that is not loaded yet guesses.

    Each encoding has several counters that share it: one groups digits as the encoding does, one
    takes them one by one, and one for each vocabulary whose costs were measured. Counts of known
    prefixes are cached by tenant, content and rules. Tenants that wait for a thread take turns.
    """

    def __init__(self) -> None:
        self._counters: dict[tuple[str, bool, str], TiktokenCounter] = {}
        self._loads: dict[tuple[str, bool, str], asyncio.Task[None]] = {}
        self._beginnings: GenerationCache[RequestCount] = GenerationCache(MAX_MESSAGES, _weight_of)
        self._threads = ThreadPoolExecutor(THREADS, "tokens")
        self._slots = FairSlots(THREADS, TENANT_THREADS)

    def of(self, rules: CountingRules, salt: int = 0) -> SaltedCounter:
        """Return the counter for these rules and a tenant; the first call starts loading it."""
        return SaltedCounter(self._counter(rules), salt)

    def _counter(self, rules: CountingRules) -> TiktokenCounter:
        key = _key_of(rules)
        counter = self._counters.get(key)
        return self._add(key) if counter is None else counter

    def _is_almost_loaded(self, rules: CountingRules) -> bool:
        """Return whether the encoding is there, and what else the counter needs soon will be.

        A request waits for that; it does not wait for an encoding, which takes longer.
        """
        if self._counter(rules).is_loaded or self._loads[_key_of(rules)].done():
            return False
        plain = self._counters.get(_key_of(CountingRules(rules.encoding)))
        return plain is not None and plain.is_loaded

    async def loaded(self, encoding: str) -> TiktokenCounter:
        """Return the encoding's counter after all of its counters are loaded, or failed to."""
        counter = self._counter(CountingRules(encoding))
        await asyncio.wait({load for key, load in self._loads.items() if key[0] == encoding})
        return counter

    async def load(self, rules: CountingRules) -> bool:
        """Load the counter for these rules; return whether it counts exactly now."""
        counter = self._counter(rules)
        await asyncio.wait({self._loads[_key_of(rules)]})
        return counter.is_loaded

    async def close(self) -> None:
        """Wait until all loads and counts have ended."""
        await asyncio.gather(*self._loads.values(), return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    async def count(
        self, request: ChatRequest, conversation: Conversation, rules: CountingRules
    ) -> RequestCount:
        """Count a request's tokens with this conversation; much new text is counted in a thread."""
        if self._is_almost_loaded(rules):
            await asyncio.wait({self._loads[_key_of(rules)]})
        count = self.count_at_once(request, conversation, rules)
        if count is None:
            work = partial(
                self._count, request, conversation, self.of(rules, request.salt), rules, None
            )
            async with self._slots.slot(request.salt):
                count = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        assert count is not None
        return count

    def count_at_once(
        self, request: ChatRequest, conversation: Conversation, rules: CountingRules
    ) -> RequestCount | None:
        """Return the same count, or None if it would block the event loop too long."""
        if not _is_small(request, conversation) or self._is_almost_loaded(rules):
            return None
        inline_counter = _InlineCounter(self._counter(rules), request.salt)
        try:
            return self._count(request, conversation, inline_counter, rules, INLINE_CHARS)
        except _NeedsThread:
            return None

    def _count(
        self,
        request: ChatRequest,
        conversation: Conversation,
        counter: TokenCounter,
        rules: CountingRules,
        max_cold_chars: int | None,
    ) -> RequestCount | None:
        """Count what follows the known prefix; return None if that is too much."""
        if conversation.beginning is NOTHING and request.next_prefix is NOTHING:
            definitions = definitions_of(request.options, conversation)
            return count_within(
                conversation.fields, definitions, counter, rules, max_cold_chars=max_cold_chars
            )
        messages, known = self._since(conversation, rules)
        next_prefix = request.next_prefix if conversation is request.conversation else NOTHING
        if next_prefix.messages > len(known.profiles):
            new = next_prefix.messages - len(known.profiles)
            counted = count_messages(
                messages[:new], counter, rules, max_cold_chars=max_cold_chars, known=known
            )
            if counted is None:
                return None
            if not counted.is_guess:
                self._beginnings.remember((next_prefix.key, rules), counted)
            messages, known = messages[new:], counted
        definitions = definitions_of(request.options, conversation)
        return count_within(
            messages, definitions, counter, rules, max_cold_chars=max_cold_chars, known=known
        )

    def _since(
        self, conversation: Conversation, rules: CountingRules
    ) -> tuple[Sequence[Fields], RequestCount]:
        """Return the messages that must be counted, and the count of those before them."""
        begun = conversation.beginning
        known = self._beginnings.recall((begun.key, rules)) if begun.messages else None
        if known is None:
            return conversation.fields, NOTHING_COUNTED
        return conversation.rest, known

    def _add(self, key: tuple[str, bool, str]) -> TiktokenCounter:
        encoding, single_digits, costs = key
        counter = TiktokenCounter(encoding, single_digits=single_digits, costs=costs)
        self._counters[key] = counter
        self._loads[key] = asyncio.create_task(self._load(counter))
        return counter

    async def _load(self, counter: TiktokenCounter) -> None:
        """Load a counter in a thread; an encoding that others have loaded is there at once."""
        loop = asyncio.get_running_loop()
        if not await loop.run_in_executor(self._threads, counter.load):
            log(
                "a tokenizer cannot be loaded: tokens are guessed",
                WARNING,
                encoding=counter.encoding_name,
                reason=counter.failure,
            )


def _key_of(rules: CountingRules) -> tuple[str, bool, str]:
    return rules.encoding, rules.single_digits, rules.costs


def definitions_of(options: Fields, conversation: Conversation) -> Definitions:
    """Return a request's tools and response format; tools also in the legacy form."""
    tools = options.get("tools") or options.get("functions")
    form = options.get("response_format")
    if not tools and form is None:
        return NOTHING_DEFINED
    return Definitions(tools, options.get("tool_choice"), form, conversation.shape.has_instructions)


def _weight_of(count: RequestCount) -> int:
    """Return the cache weight of a count, in messages; even a short one has a fixed overhead."""
    return 50 + len(count.profiles)


def _is_small(request: ChatRequest, conversation: Conversation) -> bool:
    """Return whether a request is small enough to be counted inline when its texts are known."""
    return (
        request.work_bytes <= INLINE_BYTES
        and request.structure.values <= INLINE_VALUES
        and len(conversation.origins) <= INLINE_MESSAGES
    )


class _NeedsThread(Exception):
    """The text or tools to count are new and may be long: count them in a thread."""


class _InlineCounter(SaltedCounter):
    """A counter that raises _NeedsThread for new tools and for long new texts."""

    __slots__ = ()

    def profile(self, text: str) -> int:
        """Return the profile of a text that is short or known."""
        if len(text) > INLINE_CHARS and not self.is_known(text):
            raise _NeedsThread
        return super().profile(text)

    def remembered(self, key: Hashable, work: Callable[[], int]) -> int:  # noqa: ARG002 - not run
        """Return the cached result of the key's work, or raise _NeedsThread."""
        return super().remembered(key, _refuse)


def _refuse() -> NoReturn:
    raise _NeedsThread
