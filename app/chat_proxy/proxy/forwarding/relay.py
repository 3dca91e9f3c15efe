"""Bytes through as they come: held back only while an error could still be told properly."""

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from contextlib import suppress

import orjson

from chat_proxy.errors import (
    ClientStalled,
    UpstreamError,
    UpstreamFirstByteTimeout,
    UpstreamIdleTimeout,
    UpstreamInvalidResponse,
    UpstreamResponseTooLarge,
    UpstreamTruncated,
)
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.lifecycle.deadlines import Watchdog
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.services import RequestPolicy
from chat_proxy.upstream.client import Reply
from chat_proxy.upstream.overflow import Overflow, overflow_in
from chat_proxy.upstream.usage import StreamTap, Usage, usage_of

EVENT_STREAM = b"text/event-stream"
HELD_BYTES = 8 * 1024 * 1024
PARSED_BYTES = 256 * 1024
FIRST_EVENT_BYTES = 64 * 1024
ENDING_SECONDS = 0.25
PING = b": ping\n\n"
STREAM_ERROR = "upstream_stream_error"

_REFUSAL_BEGINS = re.compile(rb"\s*data: ?\{\s*\"error\"")
_REFUSAL = re.compile(rb"\s*data: ?(\{\s*\"error\".*)\r?\n")
_STATUS = re.compile(r"[45]\d\d")


class Relay(ABC):
    """Moves one answer from the upstream to the client.

    With `holds_overflows` a chat completion's refusal for length is raised instead, as TooLong.
    """

    def __init__(
        self, context: RequestContext, policy: RequestPolicy, *, holds_overflows: bool = False
    ) -> None:
        self._context = context
        self._policy = policy
        self._record = context.record
        self._sink = context.sink
        self._holds_overflows = holds_overflows

    @abstractmethod
    def run(self, reply: Reply, watchdog: Watchdog) -> Awaitable[None]:
        """Relay the whole answer."""

    def _read(self, reply: Reply, watchdog: Watchdog) -> Awaitable[bytes]:
        watchdog.expect(self._policy.idle_seconds, UpstreamIdleTimeout)
        return reply.read_some()

    async def _write(self, chunk: bytes, watchdog: Watchdog) -> None:
        watchdog.expect(self._policy.client_stall_seconds, ClientStalled)
        await self._sink.write(chunk)
        self._record.bytes_out += len(chunk)

    def _start(self, status: int, headers: RawHeaders) -> Awaitable[None]:
        return self._sink.start(status, self._begun(status, headers))

    def _send_whole(self, status: int, headers: RawHeaders, body: bytes) -> Awaitable[None]:
        self._record.bytes_out += len(body)
        return self._sink.answer(status, self._begun(status, headers), body)

    def _begun(self, status: int, headers: RawHeaders) -> RawHeaders:
        """Note that the answer begins, and return its headers with what we tell."""
        self._record.status = status
        self._record.phase = "stream"
        return [*headers, *self._record.response_headers()]


class RelayBytes(Relay):
    """Relays an answer that is not looked at."""

    async def run(self, reply: Reply, watchdog: Watchdog) -> None:
        """Send every piece as it comes; a broken answer breaks the client's connection too."""
        chunk = await self._read(reply, watchdog)
        if reply.is_whole:
            await self._send_whole(reply.status, reply.headers, chunk)
            return
        await self._start(reply.status, reply.headers)
        while chunk:
            await self._write(chunk, watchdog)
            chunk = await self._read(reply, watchdog)
        await self._sink.end()


class TooLong(Exception):
    """The upstream refused a prompt for its length, and the client has not been told."""

    def __init__(self, status: int, headers: RawHeaders, body: bytes, overflow: Overflow) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body
        self.overflow = overflow


class RelayChat(Relay):
    """Relays a chat completion, and never lets half of one pass for a whole."""

    async def pass_on(self, refusal: TooLong) -> None:
        """Tell the client what the upstream said, byte for byte where that is still possible."""
        if self._sink.started:
            await self._sink.end(refusal_event(refusal.status, refusal.body))
            self._record.code = STREAM_ERROR
        else:
            await self._send_whole(refusal.status, refusal.headers, refusal.body)

    def _raise_overflow(self, status: int, headers: RawHeaders, body: bytes) -> None:
        if self._holds_overflows and (overflow := overflow_in(status, body)) is not None:
            raise TooLong(status, headers, body, overflow)

    def run(self, reply: Reply, watchdog: Watchdog) -> Awaitable[None]:
        """Relay a stream as it comes and anything else in one piece."""
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
        if self._sink.started:
            await self._sink.end(refusal_event(reply.status, body))
            self._record.code = STREAM_ERROR
            return
        if reply.status in (204, 205):
            raise UpstreamInvalidResponse
        if reply.status < 300 and not reply.is_encoded:
            self._context.note_usage(usage_of_completion(body))
        await self._send_whole(reply.status, reply.headers, body)

    async def _gather(self, reply: Reply, watchdog: Watchdog) -> bytes | None:
        """Return the whole answer; None if it is too large to hold, and was passed on."""
        pieces = []
        size = 0
        while chunk := await self._read(reply, watchdog):
            pieces.append(chunk)
            size += len(chunk)
            if size > self._policy.max_answer_bytes:
                raise UpstreamResponseTooLarge
            if size > HELD_BYTES and not self._sink.started:
                await self._pour(reply, pieces, watchdog)
                return None
            if reply.is_whole:
                break
        return b"".join(pieces)

    async def _pour(self, reply: Reply, held: list[bytes], watchdog: Watchdog) -> None:
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
        self._context.tap = tap = None if reply.is_encoded else StreamTap()
        chunk = await self._first_event(reply, watchdog)
        if not self._sink.started:
            if refusal := refusal_in(chunk):
                status, body = refusal
                self._raise_overflow(status, plain_json(reply.headers), body)
                await self._refuse(reply, status, body)
                return
            if not chunk:
                raise UpstreamInvalidResponse
            await self._start(reply.status, reply.headers)
        while chunk:
            if passing := tap.feed(chunk) if tap else chunk:
                await self._write(passing, watchdog)
            if tap and tap.said_all:
                await self._let_end(reply)
                break
            chunk = await self._read(reply, watchdog)
        if tap and not tap.is_complete:
            raise UpstreamTruncated
        if tap and tap.failed:
            self._record.code = STREAM_ERROR
        await self._sink.end()

    async def _let_end(self, reply: Reply) -> None:
        """Give a stream that said `[DONE]` a moment to end, so that its connection can stay."""
        if reply.is_whole:
            return
        with suppress(TimeoutError, UpstreamError):
            async with asyncio.timeout(ENDING_SECONDS):
                while await reply.read_some():
                    pass

    async def _first_event(self, reply: Reply, watchdog: Watchdog) -> bytes:
        """Return the stream's beginning, pinging the client while there is none."""
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
                await self._sink.write(PING)
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
        """Send the error that the upstream put into its stream as an answer of its own."""
        self._record.code = STREAM_ERROR
        await self._send_whole(status, plain_json(reply.headers), body)


def plain_json(headers: RawHeaders) -> RawHeaders:
    """Return the headers of a stream for an answer of JSON."""
    others = [header for header in headers if header[0] != b"content-type"]
    return [*others, (b"content-type", b"application/json")]


def refusal_event(status: int, body: bytes) -> bytes:
    """Return the upstream's own error as a stream's last event, for an answer that has begun."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if status < 400 or not isinstance(document, dict):
        raise UpstreamInvalidResponse
    told = document if "error" in document else {"error": document}
    return b"data: " + orjson.dumps(told) + b"\n\ndata: [DONE]\n\n"


def is_unfinished_refusal(beginning: bytes) -> bool:
    """Tell whether a stream begins with an error whose line is not complete yet."""
    return (
        _REFUSAL_BEGINS.match(beginning) is not None
        and _REFUSAL.match(beginning) is None
        and len(beginning) < FIRST_EVENT_BYTES
    )


def refusal_in(beginning: bytes) -> tuple[int, bytes] | None:
    """Return status and body of the error that a stream begins with, if it does."""
    found = _REFUSAL.match(beginning)
    if found is None:
        return None
    try:
        error = orjson.loads(found[1])["error"]
    except orjson.JSONDecodeError:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    status = int(code) if isinstance(code, int | str) and _STATUS.fullmatch(str(code)) else 500
    return status, found[1].strip()


def usage_of_completion(body: bytes) -> Usage | None:
    """Check that a successful answer is JSON and return its usage.

    A large one is judged by its ends: parsing it would hold up everybody else.
    """
    text = body.strip()
    if not text.startswith(b"{") or not text.endswith(b"}"):
        raise UpstreamInvalidResponse
    if len(text) > PARSED_BYTES:
        return None
    try:
        return usage_of(orjson.loads(text))
    except orjson.JSONDecodeError:
        return usage_of(_read_leniently(text))


def _read_leniently(text: bytes) -> object:
    """Read what orjson refuses but servers do write: half an emoji, or a number without bounds."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise UpstreamInvalidResponse from None
