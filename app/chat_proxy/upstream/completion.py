"""Whole completions for the proxy's own queries, streamed so that no gateway times out."""

import asyncio
from contextlib import suppress

from chat_proxy.errors import UpstreamInvalidResponse, UpstreamResponseTooLarge
from chat_proxy.http.headers import value_of
from chat_proxy.upstream.client import Call, Reply, Upstream
from chat_proxy.wires.answers import AnswerForm, Completion, parsed_document

MAX_BYTES = 4 * 1024 * 1024
REFUSAL_BYTES = 16 * 1024
REFUSAL_SECONDS = 2
LONGEST_PAUSE_SECONDS = 60


class NotAnswered(Exception):
    """The upstream answered with an error status.

    `retry_after` is the pause it asks for in seconds, `said` the beginning of its error body.
    """

    def __init__(self, status: int, retry_after: float | None, said: bytes = b"") -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.retry_after = retry_after
        self.said = said


async def complete(upstream: Upstream, call: Call, form: AnswerForm) -> Completion:
    """Send a call and return its completion, read to the end.

    Raise NotAnswered for an error status, an UpstreamError if there is no readable answer.
    """
    reply = await upstream.send(call)
    try:
        if reply.status != 200:
            raise NotAnswered(reply.status, retry_after(reply), await _read_refusal(reply))
        body = await _read(reply)
    finally:
        reply.release()
    if reply.content_type == b"text/event-stream":
        return form.completion_in_events(body)
    return form.completion_in_document(parsed_document(body))


def retry_after(reply: Reply) -> float | None:
    """Return the seconds in Retry-After, at most LONGEST_PAUSE_SECONDS; None for a date."""
    seconds = value_of(reply.headers, b"retry-after").strip()
    return min(float(seconds), LONGEST_PAUSE_SECONDS) if seconds.isdigit() else None


async def _read(reply: Reply) -> bytes:
    if reply.is_encoded:
        raise UpstreamInvalidResponse
    body = bytearray()
    while chunk := await reply.read_some():
        body += chunk
        if len(body) > MAX_BYTES:
            raise UpstreamResponseTooLarge
    return bytes(body)


async def _read_refusal(reply: Reply) -> bytes:
    """Return the beginning of an error body, which holds its explanation, if it comes soon."""
    body = bytearray()
    with suppress(TimeoutError):
        async with asyncio.timeout(REFUSAL_SECONDS):
            while len(body) < REFUSAL_BYTES and (chunk := await reply.read_some()):
                body += chunk
    return bytes(body[:REFUSAL_BYTES])
