"""Read a request's body within the limits, and parse it; a large one in a thread."""

from functools import partial

from chat_proxy.chat.body.prefixes import BodyPrefixes
from chat_proxy.chat.body.request import ChatRequest, RequestLimits, read_request
from chat_proxy.errors import BodyRefused, Overloaded, RequestTooLarge
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.lifecycle.admission import Admission
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.routing.caller import salt_of
from chat_proxy.routes.front.asgi_client import AsgiClient

# Parsing takes longer than other looks at a body.
INLINE_BYTES = 512 * 1024


class RequestReader:
    """Read and parse the requests of all endpoints."""

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

    async def read_body(self, context: RequestContext, client: AsgiClient) -> bytes:
        """Return the body; raise as soon as it is too large."""
        body = self._take_body(context, client)
        return await self._wait_for_body(context, client) if body is None else body

    def _take_body(self, context: RequestContext, client: AsgiClient) -> bytes | None:
        """Return the body if it has arrived already, as most have."""
        context.record.phase = "body"
        body = client.take_body()
        if body is not None:
            self._check_size(len(body))
            self._hold(context, client, len(body))
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

        self._check_size(client.announced_bytes)
        body = await client.read_body(accept)
        context.record.bytes_in = len(body)
        return body

    def _check_size(self, size: int) -> None:
        if size > self._max_body_bytes:
            raise RequestTooLarge(f"At most {self._max_body_bytes} bytes are accepted.")

    def _hold(self, context: RequestContext, client: AsgiClient, size: int) -> None:
        """Have the request hold so many bytes from now on, or raise Overloaded."""
        tenant = context.caller.tenant
        client.held_bytes = self._admission.hold(tenant, client.held_bytes, size)

    async def read_chat(self, context: RequestContext, client: AsgiClient) -> ChatRequest:
        """Return a chat request, parsed from where an earlier one with the same beginning ended."""
        body = self._take_body(context, client)
        if body is None:
            body = await self._wait_for_body(context, client)
        salt = salt_of(context.caller.tenant)
        if len(body) <= INLINE_BYTES:  # as most are: without a coroutine in between
            request = read_request(body, self._limits, self._prefixes, salt)
        else:
            request = await parse(body, self._limits, self._prefixes, salt)
        context.record.repeats_keys = request.body is not body
        context.record.has_lone_surrogates = request.has_lone_surrogates
        return request

    async def read_once(self, context: RequestContext, client: AsgiClient) -> ChatRequest:
        """Return a request that is not expected to come again, longer."""
        return await self.parse(await self.read_body(context, client), context)

    async def parse(self, body: bytes, context: RequestContext) -> ChatRequest:
        """Parse a body, or raise the BadRequest that says why it cannot be parsed."""
        return await parse(body, self._limits, salt=salt_of(context.caller.tenant))


async def parse(
    body: bytes, limits: RequestLimits, prefixes: BodyPrefixes | None = None, salt: int = 0
) -> ChatRequest:
    """Parse a body, or raise the BadRequest that says why it cannot be parsed."""
    work = partial(read_request, body, limits, prefixes, salt)
    return await run_inline_or_in_thread(work, len(body), INLINE_BYTES)
