"""Read a request's body within the limits, and parse it; a large one in a thread."""

from collections.abc import Callable
from functools import partial

from chat_proxy.chat.body.parsed_body import (
    RequestLimits,
    count_elements,
    count_marks,
    expected_bytes,
    parse_body,
)
from chat_proxy.chat.body.prefixes import BodyPrefixes
from chat_proxy.chat.body.request import ChatRequest, read_counted, request_of
from chat_proxy.errors import BodyRefused, Overloaded, RequestTooLarge
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.lifecycle.admission import Admission
from chat_proxy.proxy.lifecycle.fair_slots import FairSlots
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.caller import salt_of
from chat_proxy.routes.front.asgi_client import AsgiClient
from chat_proxy.routes.front.decode_body import decode, encoding_in
from chat_proxy.wires.chat_completions import CHAT_COMPLETIONS
from chat_proxy.wires.recognise import wire_of_body
from chat_proxy.wires.request import WireRequest
from chat_proxy.wires.wire import Wire

# Parsing takes longer than other looks at a body.
INLINE_BYTES = 512 * 1024
# Up to this size a body is parsed within a few milliseconds, whatever it consists of.
QUICK_BYTES = 128 * 1024
INLINE_BRACKETS = 10_000
PARSED_AT_ONCE = 3
TENANT_PARSED_AT_ONCE = 2


class RequestReader:
    """Read and parse the requests of all endpoints; tenants with large ones take turns."""

    def __init__(
        self,
        max_body_bytes: int,
        admission: Admission,
        limits: RequestLimits,
        prefixes: BodyPrefixes,
    ) -> None:
        self._max_body_bytes = max_body_bytes
        self._admission = admission
        self._limits = limits
        self._prefixes = prefixes
        self._slots = FairSlots(PARSED_AT_ONCE, TENANT_PARSED_AT_ONCE)

    async def read_body(self, context: RequestContext, client: AsgiClient) -> bytes:
        """Return the body; raise as soon as it is too large."""
        body = self._take_body(context, client)
        if body is None:
            return await self._wait_for_body(context, client)
        self._hold(context, client, len(body))
        return body

    def _take_body(self, context: RequestContext, client: AsgiClient) -> bytes | None:
        """Return the body if it has arrived already and is not compressed, as most are."""
        context.record.phase = "body"
        if b"content-encoding" in client.values:
            return None
        body = client.take_body()
        if body is not None:
            self._check_size(len(body))
            context.record.bytes_in = len(body)
        return body

    async def _wait_for_body(self, context: RequestContext, client: AsgiClient) -> bytes:
        """Receive a body, which holds what has arrived of it: announcing a length costs nothing."""

        def accept(size: int) -> None:
            self._check_size(size)
            try:
                self._hold(context, client, size)
            except Overloaded as error:
                raise BodyRefused(retry_after=error.retry_after) from None

        encoding = encoding_in(client.values.get(b"content-encoding", b""))
        self._check_size(client.announced_bytes)
        body = await client.read_body(accept)
        context.record.bytes_in = len(body)
        return await decode(body, encoding, accept) if encoding else body

    def _check_size(self, size: int) -> None:
        if size > self._max_body_bytes:
            raise RequestTooLarge(f"At most {self._max_body_bytes} bytes are accepted.")

    def _hold(self, context: RequestContext, client: AsgiClient, size: int) -> None:
        """Have the request hold so many bytes from now on, or raise Overloaded."""
        tenant = context.caller.tenant
        client.held_bytes = self._admission.hold(tenant, client.held_bytes, size)

    async def read_chat(
        self, context: RequestContext, client: AsgiClient, wire: Wire
    ) -> ChatRequest:
        """Return a chat request, parsed from where an earlier one with the same beginning ended."""
        body = self._take_body(context, client)
        if body is None:
            body = await self._wait_for_body(context, client)
        salt = salt_of(context.caller.tenant)
        context.hold = partial(self._hold, context, client)
        if is_quick(body):  # as most are: without a coroutine in between
            count_elements(body, self._limits.max_elements)
            request = read_wire(body, self._limits, wire, self._prefixes, salt)
            self._hold(context, client, request.memory_bytes)
        else:
            request = await self._parse(body, context, client, wire)
        context.record.repeats_keys = request.body is not body
        context.record.has_lone_surrogates = request.has_lone_surrogates
        return request

    async def read_any(self, context: RequestContext, client: AsgiClient) -> ChatRequest:
        """Return a request of whatever wire its body was written for."""
        body = await self.read_body(context, client)
        return await self._parse(body, context, client)

    async def model_in(self, body: bytes, context: RequestContext, client: AsgiClient) -> str:
        """Return the model that a body names, or raise the BadRequest why it cannot be parsed."""
        request = await self._parse(body, context, client)
        self._hold(context, client, len(body))
        return request.model

    async def _parse(
        self,
        body: bytes,
        context: RequestContext,
        client: AsgiClient,
        wire: Wire | None = None,
    ) -> ChatRequest:
        """Parse a body; one of a known wire is expected to come again, longer."""
        tenant = context.caller.tenant
        hold = partial(self._hold, context, client)
        salt, prefixes = salt_of(tenant), self._prefixes if wire else None
        read = partial(read_wire, body, self._limits, wire, prefixes, salt)
        if is_quick(body):
            return await parse(body, self._limits, hold, read)
        async with self._slots.slot(tenant):
            return await parse(body, self._limits, hold, read)


def is_quick(body: bytes) -> bool:
    """Return whether a body can be parsed without a thread: it is small, or has few brackets."""
    if len(body) <= QUICK_BYTES:
        return True
    return len(body) <= INLINE_BYTES and count_marks(body, (b"{", b"[")) <= INLINE_BRACKETS


def read_wire(
    body: bytes,
    limits: RequestLimits,
    wire: Wire | None,
    prefixes: BodyPrefixes | None,
    salt: int,
) -> ChatRequest:
    """Return a request whose elements were counted before; without a wire, of whichever it is."""
    if wire is CHAT_COMPLETIONS:
        return read_counted(body, limits, prefixes, salt)
    parsed = parse_body(body, limits)
    wire = wire or wire_of_body(parsed.fields)
    if wire is CHAT_COMPLETIONS:
        return request_of(parsed, salt)
    return WireRequest(wire, parsed, salt)


def read_any_wire(body: bytes, limits: RequestLimits) -> ChatRequest:
    """Return a request of whatever wire its body was written for."""
    count_elements(body, limits.max_elements)
    return read_wire(body, limits, None, None, 0)


async def parse(
    body: bytes,
    limits: RequestLimits,
    hold: Callable[[int], None],
    read: Callable[[], ChatRequest],
) -> ChatRequest:
    """Parse a body, or raise the BadRequest that says why it cannot be parsed.

    `hold` is told the memory that it will take at most, and then what it has taken; it raises if
    that is too much.
    """
    expect = partial(expected_bytes, body, limits)
    size = 0 if is_quick(body) else len(body)
    hold(await run_inline_or_in_thread(expect, size, 0))
    request = await run_inline_or_in_thread(read, size, 0)
    hold(request.memory_bytes)
    return request
