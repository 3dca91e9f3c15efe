"""Misbehaviours in time: answers before the request, slow ones, interim ones, ends and resets."""

from tools.crosstalk.upstream.answers import body, chunked, error, head, length, whole
from tools.crosstalk.upstream.misbehaviours import LAST, LATE, SOON, polite
from tools.crosstalk.upstream.turn import Turn

# Answers before the request was read


async def early(turn: Turn) -> None:
    await polite(turn)
    await turn.line.read_body()


async def early_then_second(turn: Turn) -> None:
    await polite(turn)
    await turn.line.read_body()
    turn.later(LATE, whole(turn.asked))


async def early_and_never_read(turn: Turn) -> None:
    turn.line.stop_reading()
    await polite(turn)
    turn.end_later(LATE * 10, turn.line.close)
    await turn.silence()


async def too_large_and_never_read(turn: Turn) -> None:
    turn.line.stop_reading()
    await turn.send(error(turn.asked, b"413 Content Too Large", "Too large."))
    turn.end_later(LATE * 10, turn.line.reset)
    await turn.silence()


async def early_half(turn: Turn) -> None:
    """Half of the answer before the rest of the request, the other half after it."""
    answer = whole(turn.asked)
    await turn.send(answer[:-50])
    await turn.line.read_body()
    await turn.send(answer[-50:])


async def early_reset(turn: Turn) -> None:
    await polite(turn)
    turn.reset()


async def reset_within_request(turn: Turn) -> None:
    turn.line.stop_reading()
    await turn.pause(SOON)
    turn.reset()


# Interim answers


async def interim_forest(turn: Turn) -> None:
    statuses = (b"100 Continue", b"102 Processing", b"103 Early Hints", b"199 Odd")
    line = b"HTTP/1.1 %b\r\nx-said: " + turn.asked.canary + b"\r\n\r\n"
    await turn.send(*(line % status for status in statuses * 5), whole(turn.asked))


async def interim_with_length(turn: Turn) -> None:
    interim = head(turn.asked, b"content-length: 30", status=b"103 Early Hints")
    await turn.send(interim + whole(turn.asked))


async def upgrade(turn: Turn) -> None:
    switching = head(turn.asked, b"upgrade: x", b"connection: upgrade", status=b"101 Switching")
    await turn.send(switching + turn.asked.canary * 3)
    turn.end_later(LATE, turn.line.close)


async def no_status(turn: Turn) -> None:
    await turn.send(whole(turn.asked, status=b"000 Nothing"))


async def no_http(turn: Turn) -> None:
    await turn.send(b"220 mail.example ESMTP %b\r\n" % turn.asked.canary)


# Slow answers


async def slow_head(turn: Turn) -> None:
    answer = whole(turn.asked)
    for cut in range(0, 60, 15):
        await turn.send(answer[cut : cut + 15])
        await turn.pause(LATE / 3)
    await turn.send(answer[60:])


async def slow_body(turn: Turn) -> None:
    content = body(turn.asked)
    await turn.send(head(turn.asked, length(content)))
    for cut in range(0, len(content), 100):
        await turn.pause(LATE / 3)
        await turn.send(content[cut : cut + 100])


async def late_answer(turn: Turn) -> None:
    await turn.pause(LATE * 10)
    await polite(turn)


async def no_answer(turn: Turn) -> None:
    await turn.silence()


# Ends and resets


async def reset_before_answer(turn: Turn) -> None:
    await turn.pause(LATE)
    turn.reset()


async def reset_after_head(turn: Turn) -> None:
    await turn.send(head(turn.asked, length(body(turn.asked))))
    await turn.pause(SOON)
    turn.reset()


async def reset_within_body(turn: Turn) -> None:
    await turn.send(chunked(turn.asked))
    await turn.pause(SOON)
    turn.reset()


async def reset_after_answer(turn: Turn) -> None:
    await polite(turn)
    turn.end_later(LATE, turn.line.reset)


async def end_before_answer(turn: Turn) -> None:
    await turn.pause(SOON)
    turn.close()


async def half_close_before_answer(turn: Turn) -> None:
    turn.line.half_close()
    await turn.silence()


async def half_close_within_body(turn: Turn) -> None:
    await turn.send(chunked(turn.asked))
    turn.line.half_close()
    await turn.silence()


async def half_close_after_answer(turn: Turn) -> None:
    await polite(turn)
    turn.end_later(LATE, turn.line.half_close)


async def says_keep_and_closes(turn: Turn) -> None:
    await turn.send(whole(turn.asked, b"connection: keep-alive", b"keep-alive: timeout=60"))
    turn.end_later(SOON, turn.line.close)


async def says_close_and_keeps(turn: Turn) -> None:
    await turn.send(whole(turn.asked, b"connection: close"))
    turn.later(LATE, whole(turn.asked))


async def old_version_kept(turn: Turn) -> None:
    answer = whole(turn.asked, b"connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    await turn.send(answer)
    turn.later(LATE, whole(turn.asked))


async def old_version_with_chunks(turn: Turn) -> None:
    await turn.send(chunked(turn.asked).replace(b"HTTP/1.1", b"HTTP/1.0", 1) + LAST)
    turn.later(LATE, whole(turn.asked))
