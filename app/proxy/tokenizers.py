"""The tokenizers of this process: loaded behind the scenes, and large counts made in threads."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NoReturn

from app.chat.request import ChatRequest
from app.telemetry.logs import WARNING, say
from app.tokens.counter import Definitions, Fields, RequestCount, count_within
from app.tokens.overheads import CountingRules
from app.tokens.prefixes import BLOCK_BYTES, NOTHING, Prefixes
from app.tokens.tiktoken_counter import TiktokenCounter
from app.tokens.token_counter import TokenCounter

INLINE_BYTES = 1024 * 1024
INLINE_MESSAGES = 2_000
INLINE_CHARS = 16 * 1024
THREADS = 2


class Tokenizers:
    """Gives out counters by encoding; one that is not loaded yet guesses."""

    def __init__(self) -> None:
        self._counters: dict[str, TiktokenCounter] = {}
        self._hasty: dict[str, _Hasty] = {}
        self._loads: dict[str, asyncio.Task[None]] = {}
        self._prefixes = Prefixes()
        self._threads = ThreadPoolExecutor(THREADS, "tokens")

    def of(self, encoding: str) -> TiktokenCounter:
        """Return the encoding's counter, and begin to load it when it is asked for first."""
        counter = self._counters.get(encoding)
        if counter is None:
            counter = self._counters[encoding] = TiktokenCounter(encoding)
            self._hasty[encoding] = _Hasty(counter)
            self._loads[encoding] = asyncio.create_task(self._load(counter))
        return counter

    async def loaded(self, encoding: str) -> TiktokenCounter:
        """Return the encoding's counter when it is loaded, or cannot be."""
        counter = self.of(encoding)
        await asyncio.wait({self._loads[encoding]})
        return counter

    async def close(self) -> None:
        """Wait until nothing is being loaded or counted."""
        await asyncio.gather(*self._loads.values(), return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    async def count(
        self, request: ChatRequest, messages: Sequence[Fields], rules: CountingRules
    ) -> RequestCount:
        """Count a request's tokens; one that is huge, or has much that is new, in a thread."""
        counter = self.of(rules.encoding)
        count = None
        if _is_small(request, messages):
            with suppress(_TooMuch):
                hasty = self._hasty[rules.encoding]
                count = self._count(request, messages, hasty, rules, INLINE_CHARS)
        if count is None:
            work = partial(self._count, request, messages, counter, rules, None)
            count = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        assert count is not None
        return count

    def _count(
        self,
        request: ChatRequest,
        messages: Sequence[Fields],
        counter: TokenCounter,
        rules: CountingRules,
        max_cold_chars: int | None,
    ) -> RequestCount | None:
        """Count what is new since the conversation was shorter; nothing if that is too much."""
        may_grow = _is_small(request, messages) and _may_grow(request, messages)
        begun = self._prefixes.find(request.body, rules) if may_grow else NOTHING
        count = count_within(
            messages,
            definitions_of(request.fields),
            counter,
            rules,
            max_cold_chars=max_cold_chars,
            known=begun.counted,
        )
        if may_grow and count is not None and not count.is_guess:
            self._prefixes.learn(request, begun, counter, rules)
        return count

    async def _load(self, counter: TiktokenCounter) -> None:
        loop = asyncio.get_running_loop()
        if not await loop.run_in_executor(self._threads, counter.load):
            say(
                "a tokenizer cannot be loaded: tokens are guessed",
                WARNING,
                encoding=counter.encoding_name,
                reason=counter.failure,
            )


def definitions_of(fields: Fields) -> Definitions:
    """Return what a request defines, in today's form or the legacy one."""
    tools = fields.get("tools") or fields.get("functions")
    return Definitions(tools, fields.get("tool_choice"), fields.get("response_format"))


def _is_small(request: ChatRequest, messages: Sequence[Fields]) -> bool:
    """Tell whether a request does not hold up the event loop when its texts are known."""
    return len(request.body) <= INLINE_BYTES and len(messages) <= INLINE_MESSAGES


def _may_grow(request: ChatRequest, messages: Sequence[Fields]) -> bool:
    """Tell whether to look how the body begins: the client's own messages, and short ones.

    A message that is long costs little beside its hash, and a picture not even that.
    """
    is_unchanged = messages is request.fields.get("messages")
    return is_unchanged and len(request.body) <= len(messages) * BLOCK_BYTES // 2


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
