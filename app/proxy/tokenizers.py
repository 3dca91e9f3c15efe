"""The tokenizers of this process: loaded behind the scenes, and large counts made in threads."""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn

from app.chat.request import ChatRequest
from app.telemetry.logs import WARNING, say
from app.tokens.counter import Definitions, RequestCount, count_within
from app.tokens.overheads import CountingRules
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
        self._loads: dict[str, asyncio.Task[None]] = {}
        self._threads = ThreadPoolExecutor(THREADS, "tokens")

    def of(self, encoding: str) -> TiktokenCounter:
        """Return the encoding's counter, and begin to load it when it is asked for first."""
        counter = self._counters.get(encoding)
        if counter is None:
            counter = self._counters[encoding] = TiktokenCounter(encoding)
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
        self, request: ChatRequest, messages: Sequence[dict[str, Any]], rules: CountingRules
    ) -> RequestCount:
        """Count a request's tokens; one that is huge, or has much that is new, in a thread."""
        counter = self.of(rules.encoding)
        defined = _definitions(request.fields)
        count = None
        if len(request.body) <= INLINE_BYTES and len(messages) <= INLINE_MESSAGES:
            count = _count_at_once(messages, defined, counter, rules)
        if count is None:
            work = partial(count_within, messages, defined, counter, rules, max_cold_chars=None)
            count = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        assert count is not None
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


def _definitions(fields: Mapping[str, Any]) -> Definitions:
    tools = fields.get("tools") or fields.get("functions")
    return Definitions(tools, fields.get("tool_choice"), fields.get("response_format"))


def _count_at_once(
    messages: Sequence[dict[str, Any]],
    defined: Definitions,
    counter: TokenCounter,
    rules: CountingRules,
) -> RequestCount | None:
    """Count a request on the event loop, nothing if that would hold it up."""
    try:
        return count_within(messages, defined, _Hasty(counter), rules, max_cold_chars=INLINE_CHARS)
    except _TooMuch:
        return None


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
