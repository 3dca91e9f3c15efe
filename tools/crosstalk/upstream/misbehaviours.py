"""How an upstream can break the rules of HTTP/1.1 on a kept connection: lengths, ends and order."""

from collections.abc import Awaitable, Callable

from tools.crosstalk.upstream.answers import (
    big,
    body,
    chunk,
    chunked,
    error,
    events,
    head,
    length,
    whole,
)
from tools.crosstalk.upstream.turn import Turn

Act = Callable[[Turn], Awaitable[None]]

LAST = b"0\r\n\r\n"
GARBAGE = b"\x16\x03\x01\x00\xa5 not HTTP at all %b\r\n\r\n"
SOON, LATE, VERY_LATE = 0.001, 0.03, 0.4
"""Seconds: while the answer is on its way, while others wait, while the connection is idle."""


# What keeps to the rules


async def polite(turn: Turn) -> None:
    await turn.send(whole(turn.asked))


async def polite_chunks(turn: Turn) -> None:
    await turn.send(chunked(turn.asked) + LAST)


async def polite_close(turn: Turn) -> None:
    await turn.send(whole(turn.asked, b"connection: close"))
    turn.close()


async def polite_until_closed(turn: Turn) -> None:
    await turn.send(head(turn.asked) + body(turn.asked))
    await turn.pause(LATE)
    turn.close()


async def big_answer(turn: Turn) -> None:
    await turn.send(big(turn.asked))


async def refusal(turn: Turn) -> None:
    await turn.send(error(turn.asked, b"429 Too Many Requests", "Slow down."))


async def overflow(turn: Turn) -> None:
    message = "This model's maximum context length is 100000 tokens."
    await turn.send(error(turn.asked, b"400 Bad Request", message))


# More than was asked for


async def second_at_once(turn: Turn) -> None:
    await turn.send(whole(turn.asked) * 2)


async def second_soon(turn: Turn) -> None:
    await polite(turn)
    turn.later(SOON, whole(turn.asked))


async def second_late(turn: Turn) -> None:
    await polite(turn)
    turn.later(LATE, whole(turn.asked))


async def second_very_late(turn: Turn) -> None:
    await polite(turn)
    turn.later(VERY_LATE, whole(turn.asked))


async def three_late(turn: Turn) -> None:
    await polite_chunks(turn)
    for _ in range(3):
        turn.later(LATE, chunked(turn.asked) + LAST)


async def second_in_two_parts(turn: Turn) -> None:
    await polite(turn)
    turn.later(SOON, head(turn.asked, length(body(turn.asked))))
    turn.later(LATE, body(turn.asked))


async def big_second_late(turn: Turn) -> None:
    await polite(turn)
    turn.later(LATE, big(turn.asked))


async def timeout_notice_late(turn: Turn) -> None:
    """As servers do that give up waiting for another request."""
    await polite(turn)
    turn.later(LATE, error(turn.asked, b"408 Request Timeout", "Too late."))
    turn.end_later(LATE * 2, turn.line.close)


async def garbage_at_once(turn: Turn) -> None:
    await turn.send(whole(turn.asked) + GARBAGE % turn.asked.canary)


async def garbage_late(turn: Turn) -> None:
    await polite(turn)
    turn.later(LATE, GARBAGE % turn.asked.canary)


async def interim_late(turn: Turn) -> None:
    await polite(turn)
    turn.later(LATE, b"HTTP/1.1 103 Early Hints\r\nx-said: %b\r\n\r\n" % turn.asked.canary)


async def second_elsewhere(turn: Turn) -> None:
    await polite(turn)
    turn.later_elsewhere(LATE, whole(turn.asked))


async def answer_elsewhere(turn: Turn) -> None:
    """As a load balancer that mixes up its connections."""
    turn.later_elsewhere(SOON, whole(turn.asked))
    await turn.pause(LATE)
    turn.close()


async def second_on_a_new_connection(turn: Turn) -> None:
    await polite(turn)
    turn.greet_next(whole(turn.asked))


async def blank_line_late(turn: Turn) -> None:
    await polite(turn)
    turn.later(SOON, b"\r\n")


# Lengths that do not hold


async def length_too_short(turn: Turn) -> None:
    content = body(turn.asked)
    await turn.send(head(turn.asked, length(content[:-20])) + content)


async def length_too_short_late(turn: Turn) -> None:
    content = body(turn.asked)
    await turn.send(head(turn.asked, length(content[:-20])) + content[:-20])
    turn.later(LATE, content[-20:] + turn.asked.canary)


async def length_too_long_then_end(turn: Turn) -> None:
    content = body(turn.asked)
    await turn.send(head(turn.asked, length(content + b"more")) + content)
    await turn.pause(LATE)
    turn.close()


async def length_too_long_then_silence(turn: Turn) -> None:
    content = body(turn.asked)
    await turn.send(head(turn.asked, length(content + b"more")) + content)
    await turn.silence()


async def length_too_long_then_second(turn: Turn) -> None:
    content = body(turn.asked)
    await turn.send(head(turn.asked, length(content + b"more")) + content)
    await turn.pause(LATE)
    await turn.send(whole(turn.asked))


async def head_only_then_body_late(turn: Turn) -> None:
    """As if it had been asked for HEAD."""
    await turn.send(head(turn.asked, length(body(turn.asked))))
    await turn.pause(LATE * 3)
    await turn.send(body(turn.asked) + turn.asked.canary)


async def two_lengths(turn: Turn) -> None:
    content = body(turn.asked)
    await turn.send(head(turn.asked, b"content-length: 10", length(content)) + content)


async def length_and_chunks(turn: Turn) -> None:
    await turn.send(chunked(turn.asked, b"content-length: 10") + LAST)


async def no_content_with_body(turn: Turn) -> None:
    await turn.send(whole(turn.asked, status=b"204 No Content"))


async def no_content_with_body_late(turn: Turn) -> None:
    content = body(turn.asked)
    await turn.send(head(turn.asked, length(content), status=b"204 No Content"))
    turn.later(LATE, content)


async def not_modified_with_body(turn: Turn) -> None:
    await turn.send(whole(turn.asked, status=b"304 Not Modified"))


async def not_modified_with_body_late(turn: Turn) -> None:
    content = body(turn.asked)
    await turn.send(head(turn.asked, length(content), status=b"304 Not Modified"))
    turn.later(LATE, content)


# Chunks


async def two_last_chunks(turn: Turn) -> None:
    await turn.send(chunked(turn.asked) + LAST * 2)


async def second_last_chunk_late(turn: Turn) -> None:
    await turn.send(chunked(turn.asked) + LAST)
    turn.later(SOON, LAST)


async def more_chunks_late(turn: Turn) -> None:
    await turn.send(chunked(turn.asked) + LAST)
    turn.later(LATE, chunk(turn.asked.canary) + LAST)


async def last_chunk_missing(turn: Turn) -> None:
    await turn.send(chunked(turn.asked))
    await turn.pause(LATE)
    turn.close()


async def bad_chunk(turn: Turn) -> None:
    await turn.send(chunked(turn.asked) + b"zz\r\n" + turn.asked.canary)


async def trailers(turn: Turn) -> None:
    await turn.send(chunked(turn.asked) + b"0\r\nx-trailer: %b\r\n\r\n" % turn.asked.canary)


async def many_trailers(turn: Turn) -> None:
    lines = b"".join(b"x-%d: %b\r\n" % (number, turn.asked.canary) for number in range(300))
    await turn.send(chunked(turn.asked) + b"0\r\n", lines, b"\r\n")


async def chunk_extensions(turn: Turn) -> None:
    content = body(turn.asked)
    begin = head(turn.asked, b"transfer-encoding: chunked") + b"%x;said=" % len(content)
    await turn.send(begin + turn.asked.canary * 50 + b"\r\n" + content + b"\r\n" + LAST)


async def stream_without_end(turn: Turn) -> None:
    begin = head(turn.asked, b"transfer-encoding: chunked")
    await turn.send(begin, *(chunk(event) for event in events(turn.asked)), LAST)
