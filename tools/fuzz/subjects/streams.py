"""Event streams: the tap sees the same, and lets the same pass, however the bytes are cut."""

from itertools import pairwise
from random import Random

from chat_proxy.wires.usage import MAX_LINE_BYTES, StreamTap, Usage


def tap_any_stream(data: bytes) -> None:
    """Let a stream pass in one piece, byte by byte, and in pieces that its content decides."""
    whole = _tapped([data])
    assert data.startswith(whole[0])
    if not whole[1]:
        assert whole[0] == data
    assert len(data) < MAX_LINE_BYTES
    random = Random(len(data))
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(6))
    pieces = [data[start:end] for start, end in pairwise([0, *cuts, len(data)])]
    assert _tapped(pieces) == whole
    if len(data) < 2_000:
        assert _tapped([data[at : at + 1] for at in range(len(data))]) == whole


def _tapped(pieces: list[bytes]) -> tuple[bytes, bool, bool, bool, Usage | None]:
    tap = StreamTap()
    passed = b"".join(map(tap.feed, pieces))
    return passed, tap.done, tap.is_complete, tap.failed, tap.usage
