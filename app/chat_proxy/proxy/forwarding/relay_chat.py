"""Relay a chat's answer, which may be a refusal that the proxy can still do something about."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

from chat_proxy.errors import (
    UpstreamError,
    UpstreamFirstByteTimeout,
    UpstreamInvalidResponse,
    UpstreamResponseTooLarge,
    UpstreamTruncated,
)
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.forwarding.refusals import (
    TooLong,
    TruncatedPrompt,
    is_unfinished_refusal,
    plain_json,
    refusal_document,
    refusal_in,
)
from chat_proxy.proxy.forwarding.relay import EVENT_STREAM, Relay
from chat_proxy.proxy.forwarding.silent_truncation import SentPrompt, truncation_of
from chat_proxy.proxy.lifecycle.cancellation import Watchdog
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.request_policy import RequestPolicy
from chat_proxy.upstream.client import Reply
from chat_proxy.upstream.overflow import Overflow, overflow_in
from chat_proxy.upstream.said import said_in
from chat_proxy.wires.answers import Tap
from chat_proxy.wires.usage import Usage

HELD_BYTES = 8 * 1024 * 1024
ENDING_SECONDS = 0.25
STREAM_ERROR = "upstream_stream_error"


class RelayChat(Relay):
    """Relay a chat completion; a truncated one never looks complete.

    With `holds_overflows` a refusal for length is raised as TooLong instead, and so is the whole
    answer to a prompt that the upstream truncated, if the prompt is given. With `needs_success`
    any other answer than a success is raised as UpstreamError. `sent` is the request's body, of
    which nothing may stand in the reason for a refusal. The context's edits change the answer, one
    behind the other; if one of them goes on with another call, the client's stream is left open.
    What the context wants to be done before the end is awaited once the whole answer is there.
    """

    def __init__(
        self,
        context: RequestContext,
        policy: RequestPolicy,
        *,
        holds_overflows: bool = False,
        prompt: SentPrompt | None = None,
        needs_success: bool = False,
        sent: bytes = b"",
    ) -> None:
        super().__init__(context, policy)
        self._form = context.wire.answers
        self._holds_overflows = holds_overflows
        self._prompt = prompt
        self._needs_success = needs_success
        self._sent = sent
        self._before_end = context.before_end
        self._edits = context.answer_edits

    async def send_refusal(self, refusal: TooLong) -> None:
        """Send the upstream's refusal to the client, byte for byte where the API allows it."""
        status, headers, body = refusal.status, refusal.headers, refusal.body
        self._explain_refusal(status, body)
        if not isinstance(refusal, TruncatedPrompt) and not refusal.overflow.is_bytes:
            body = self._form.too_long(body, *self._sizes_in(refusal.overflow))
        if body is not refusal.body:
            status, headers = 400, plain_json(headers)
        if self._sink.started:
            await self._sink.end(self._refusal_event(status, body))
            self._record.code = STREAM_ERROR
        else:
            await self._send_whole(status, headers, body)

    def _sizes_in(self, overflow: Overflow) -> tuple[int, int]:
        """Return the tokens that the request needs and the maximum, as far as they are known."""
        limit = overflow.input_limit or overflow.limit or self._record.window or 0
        needed = overflow.prompt_tokens or self._record.tokens_after or 0
        return max(needed + (overflow.output_tokens or 0), limit + 1), limit

    def _refusal_event(self, status: int, body: bytes) -> bytes:
        """Return the upstream's own error as the last event of a stream that has begun."""
        document = refusal_document(status, body)
        request_id, response_id = self._record.request_id, self._context.response_id
        return self._form.error_event(document, request_id, response_id)

    def _explain_refusal(self, status: int, body: bytes) -> None:
        """Record the upstream's own words; a request that it calls invalid is the client's."""
        if status < 400:
            return
        words = said_in(body, self._sent)
        sentence = f"The upstream {self._record.upstream} answered with status {status}"
        warns = status not in (400, 422)
        sentence = f"{sentence}: {words}" if words else f"{sentence}."
        self._record.explain_failure(sentence, status, warns=warns)

    def _raise_overflow(self, status: int, headers: RawHeaders, body: bytes) -> None:
        if self._holds_overflows and (overflow := overflow_in(status, body)) is not None:
            raise TooLong(status, headers, body, overflow)

    def _raise_failure(self) -> None:
        if self._needs_success:
            raise UpstreamError

    def _raise_truncation(self, reply: Reply, body: bytes, usage: Usage) -> None:
        """Raise if the usage shows a truncated prompt, unless the client waits for a stream."""
        if not self._holds_overflows or self._prompt is None or self._record.streams:
            return
        if (truncation := truncation_of(self._prompt, usage)) is not None:
            raise TruncatedPrompt(reply.headers, body, truncation)

    def run(self, reply: Reply, watchdog: Watchdog) -> Awaitable[None]:
        """Relay a stream as it arrives and anything else in one piece."""
        if reply.is_encoded:
            self._edits, self._before_end = (), None
        if reply.status == 200 and reply.content_type == EVENT_STREAM:
            return self._stream(reply, watchdog)
        return self._whole(reply, watchdog)

    async def _whole(self, reply: Reply, watchdog: Watchdog) -> None:
        """Hold the answer until it is complete, so that a reset can still become an error."""
        body = reply.take_whole()
        if body is None:
            body = await self._gather(reply, watchdog)
        elif len(body) > self._policy.max_answer_bytes:
            raise UpstreamResponseTooLarge
        if body is None:
            return
        if reply.status >= 400:
            self._raise_overflow(reply.status, reply.headers, body)
            self._raise_failure()
            self._explain_refusal(reply.status, body)
        if self._sink.started:
            await self._sink.end(self._refusal_event(reply.status, body))
            self._record.code = STREAM_ERROR
            return
        if reply.status in (204, 205):
            raise UpstreamInvalidResponse
        is_read = reply.status < 300 and not reply.is_encoded
        if is_read and (usage := self._form.usage_of_answer(body)):
            self._record.set_usage(*usage)
            self._raise_truncation(reply, body, usage)
        if is_read:
            body = self._edited_whole(body)
            await self._prepare_end()
        if not self._goes_on:
            await self._send_whole(reply.status, reply.headers, body)

    async def _gather(self, reply: Reply, watchdog: Watchdog) -> bytes | None:
        """Return the whole answer; None if it was too large to hold, and was relayed."""
        pieces = []
        size = 0
        while chunk := await self._read(reply, watchdog):
            pieces.append(chunk)
            size += len(chunk)
            if size > self._policy.max_answer_bytes:
                raise UpstreamResponseTooLarge
            if size > HELD_BYTES and not self._sink.started:
                await self._relay_large(reply, pieces, watchdog)
                return None
            if reply.is_whole:
                break
        return b"".join(pieces)

    async def _relay_large(self, reply: Reply, held: list[bytes], watchdog: Watchdog) -> None:
        """Relay an answer too large to hold, up to the limit."""
        await self._start(reply.status, reply.headers)
        await self._write(b"".join(held), watchdog)
        held.clear()
        while chunk := await self._read(reply, watchdog):
            if self._record.bytes_out + len(chunk) > self._policy.max_answer_bytes:
                raise UpstreamResponseTooLarge
            await self._write(chunk, watchdog)
        await self._sink.end()

    async def _stream(self, reply: Reply, watchdog: Watchdog) -> None:
        """Relay events; the upstream's own error in the first one becomes a real status."""
        tap = None if reply.is_encoded else self._form.tap()
        self._context.observe(tap)
        chunk = await self._first_event(reply, watchdog)
        if not self._sink.started:
            if refusal := refusal_in(chunk):
                status, body = refusal
                self._raise_overflow(status, plain_json(reply.headers), body)
                self._raise_failure()
                if self._form.refuses_by_status:
                    await self._refuse(reply, status, body)
                    return
            if not chunk:
                raise UpstreamInvalidResponse
            await self._start(reply.status, reply.headers)
        # What is changed on its way is read by the task: no piece passes it by.
        write_piece = None if self._edits else self._piece_writer(watchdog, tap)
        while chunk:
            if passing := await self._passing(chunk, tap):
                await self._write(passing, watchdog)
            if tap and tap.said_all:
                await self._await_end(reply)
                break
            if tap and tap.is_over:
                chunk = await self._read_last(reply)
            else:
                chunk = await self._read(reply, watchdog, write_piece)
        if tap and not tap.is_complete:
            raise UpstreamTruncated
        if tap and tap.failed:
            self._record.code = STREAM_ERROR
        else:
            await self._prepare_end()
        await self._end_stream(watchdog)

    @property
    def _goes_on(self) -> bool:
        return any(edit.goes_on for edit in self._edits)

    def _edited_whole(self, body: bytes) -> bytes:
        """Return a whole answer as the edits change it; one that goes on is nobody's answer yet."""
        for edit in self._edits:
            body = edit.whole(body)
            if edit.goes_on:
                break
        return body

    def _edited(self, chunk: bytes) -> bytes:
        for edit in self._edits:
            chunk = edit.feed(chunk)
        return chunk

    async def _end_stream(self, watchdog: Watchdog) -> None:
        """Send what the edits still hold, and end the client's stream unless it goes on."""
        rest = b""
        for edit in self._edits:
            rest = edit.feed(rest)
            if not self._goes_on or edit.goes_on:
                rest += edit.end()
        if rest:
            await self._write(rest, watchdog)
        if not self._goes_on:
            await self._sink.end()

    async def _passing(self, chunk: bytes, tap: Tap | None) -> bytes:
        """Return what the client gets of a chunk; all is ready for its end if that is in it."""
        passing = self._edited(tap.feed(chunk) if tap else chunk)
        if tap and (tap.is_over or tap.said_all) and not tap.failed:
            await self._prepare_end()
        return passing

    async def _prepare_end(self) -> None:
        """Await what is to be done before the end, once, if this answer is the client's last."""
        if self._before_end is not None and not self._goes_on and not self._record.code:
            before_end, self._before_end = self._before_end, None
            await before_end()

    async def _await_end(self, reply: Reply) -> None:
        """Wait briefly for a stream to end after `[DONE]`, so that its connection can be reused."""
        if reply.is_whole:
            return
        with suppress(TimeoutError, UpstreamError):
            async with asyncio.timeout(ENDING_SECONDS):
                while await reply.read_some():
                    pass

    async def _read_last(self, reply: Reply) -> bytes:
        """Return what still follows the last event of a stream, if it comes soon."""
        if reply.is_whole:
            return b""
        with suppress(TimeoutError, UpstreamError):
            async with asyncio.timeout(ENDING_SECONDS):
                return await reply.read_some()
        return b""

    async def _first_event(self, reply: Reply, watchdog: Watchdog) -> bytes:
        """Return the stream's first bytes, pinging the client while there are none."""
        watchdog.expect(self._policy.first_byte_seconds, UpstreamFirstByteTimeout)
        held = b""
        while True:
            try:
                chunk = await self._read_before_ping(reply)
            except TimeoutError:
                if held:
                    return held
                if not self._sink.started:
                    await self._start(reply.status, reply.headers)
                await self._sink.write(self._form.ping)
                continue
            held += chunk
            if not chunk or self._sink.started or not is_unfinished_refusal(held):
                return held

    async def _read_before_ping(self, reply: Reply) -> bytes:
        """Return the next bytes, or raise TimeoutError when it is time for a ping."""
        if reply.has_news or not self._policy.ping_seconds:
            return await reply.read_some()
        async with asyncio.timeout(self._policy.ping_seconds):
            return await reply.read_some()

    async def _refuse(self, reply: Reply, status: int, body: bytes) -> None:
        """Send an error from the upstream's stream as a response with its own status."""
        self._record.code = STREAM_ERROR
        self._explain_refusal(status, body)
        await self._send_whole(status, plain_json(reply.headers), body)
