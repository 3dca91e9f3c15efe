"""Reading a request's body: a large one in a thread, so that nobody else waits for it."""

import asyncio

from app.chat.beginnings import Beginnings
from app.chat.request import ChatRequest, RequestLimits, read_request

INLINE_BYTES = 512 * 1024


async def request_in(
    body: bytes, limits: RequestLimits, beginnings: Beginnings | None = None
) -> ChatRequest:
    """Return the request, or raise the BadRequest that says why it cannot be read.

    A thread shares the interpreter, but no longer than one step takes: parsing, then each look at
    what was parsed.
    """
    if len(body) <= INLINE_BYTES:
        return read_request(body, limits, beginnings)
    return await asyncio.to_thread(read_request, body, limits, beginnings)
