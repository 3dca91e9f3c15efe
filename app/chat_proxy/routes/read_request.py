"""Reading a request's body: a large one in a thread, so that nobody else waits for it."""

import asyncio

from chat_proxy.chat.body.prefixes import BodyPrefixes
from chat_proxy.chat.body.request import ChatRequest, RequestLimits, read_request

INLINE_BYTES = 512 * 1024


def is_read_at_once(body: bytes) -> bool:
    """Tell whether nobody notices the time that reading takes."""
    return len(body) <= INLINE_BYTES


async def request_in(
    body: bytes, limits: RequestLimits, body_prefixes: BodyPrefixes | None = None
) -> ChatRequest:
    """Return the request, or raise the BadRequest that says why it cannot be read.

    A thread shares the interpreter, but no longer than one step takes: parsing, then each look at
    what was parsed.
    """
    if is_read_at_once(body):
        return read_request(body, limits, body_prefixes)
    return await asyncio.to_thread(read_request, body, limits, body_prefixes)
