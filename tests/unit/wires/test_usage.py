"""Row B15: the tap sees what matters however the stream is cut, and changes nothing."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.wires.usage import MAX_LINE_BYTES, StreamTap, Usage, usage_in, usage_of
from tests.support.fake_model import DONE, delta, event

USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5}}
SEEN = Usage(7, 2, 5)

LINES = [
    b"\n",
    b"\r\n",
    b": ping\n\n",
    b"event: x\n",
    b'data: {"error": {"message": "no"}}\n\n',
    b'data:{"error":1}\r\n\r\n',
    b"data: [DONE]\n\n",
    b"data:[DONE]\r\n\r\n",
    b"data: [DONE] \t\n\n",
    b"data: [DONE]",
    b"data: [DONE]\r",
    b"[DONE]",
    b"\r",
    b" data: [DONE]\n",
    delta("ä😀"),
    delta(finish_reason="stop"),
    event({"usage": USAGE}),
    b'data: {"usage": {"prompt_tokens": -1}}\n\n',
    b'data: {"usage": {broken\n\n',
    b"\xff\xfe\x00",
    b"data: several\ndata: lines\n\n",
]

streams = st.lists(st.sampled_from(LINES) | st.binary(max_size=12), max_size=12).map(b"".join)


def pieces_of(stream: bytes, places: list[int]) -> list[bytes]:
    cuts = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[a:b] for a, b in pairwise(cuts)]


def findings(pieces: list[bytes]) -> tuple[Any, ...]:
    tap = StreamTap()
    passed = b"".join(tap.feed(piece) for piece in pieces)
    is_open = not tap.done and tap.is_inside_event  # nothing is written behind [DONE]
    return passed, is_open, tap.is_complete, tap.done, tap.finished, tap.failed, tap.usage


@given(streams, st.lists(st.integers(0, 400), max_size=8))
def test_any_cut_of_any_stream_gives_the_same(stream: bytes, places: list[int]) -> None:
    assert findings(pieces_of(stream, places)) == findings([stream])


@given(streams)
def test_byte_by_byte_gives_the_same(stream: bytes) -> None:
    assert findings([bytes([byte]) for byte in stream]) == findings([stream])


@given(streams)
def test_what_passes_is_the_stream_up_to_done(stream: bytes) -> None:
    passed, _, _, done, *_ = findings([stream])

    assert stream.startswith(passed)
    assert done or passed == stream


@given(st.lists(st.binary(max_size=200), max_size=10))
def test_no_bytes_make_it_raise(pieces: list[bytes]) -> None:
    findings(pieces)


def test_every_place_in_a_usual_stream_can_be_cut() -> None:
    stream = delta("ä") + delta(finish_reason="stop") + event({"usage": USAGE}) + DONE
    expected = (stream, False, True, True, True, False, SEEN)

    for place in range(len(stream)):
        assert findings([stream[:place], stream[place:]]) == expected


@pytest.mark.parametrize(
    "done", [b"data: [DONE]\n\n", b"data:[DONE]\r\n\r\n", b"data: [DONE] \n\n"]
)
@pytest.mark.parametrize("tail", [b"", b"\n", b"data: x\n\n", b"data: [DONE]\n\n", b"\r\n"])
def test_nothing_passes_behind_done(done: bytes, tail: bytes) -> None:
    """B10."""
    for place in range(1, len(done + tail)):
        both = done + tail
        tap = StreamTap()
        passed = tap.feed(both[:place]) + tap.feed(both[place:]) + tap.feed(tail)
        assert passed == done
        assert tap.said_all or not tail


@pytest.mark.parametrize(
    ("line", "is_open"),
    [
        (b"", False),
        (b"data: 1\n\n", False),
        (b"data: 1\r\n\r\n", False),
        (b"data: 1\n\r\n", False),
        (b"data: 1", True),
        (b"data: 1\n", True),
        (b"data: 1\r\n", True),
        (b"data: 1\r\n\r", True),
        (b": comment\n", True),
    ],
)
def test_it_knows_whether_an_event_is_open(line: bytes, is_open: bool) -> None:
    """B8: an error must begin an event of its own."""
    tap = StreamTap()
    tap.feed(line)

    assert tap.is_inside_event is is_open


@pytest.mark.parametrize(
    ("stream", "is_complete"),
    [
        (b"", False),
        (delta("x"), False),
        (delta(finish_reason="stop"), True),
        (delta(finish_reason="stop").rstrip(), True),
        (delta('{"finish_reason":"stop"}'), False),
        (delta("data: [DONE]\n"), False),
        (b'data: {"choices":[{"finish_reason": "length"}]}\n\n', True),
        (DONE, True),
        (b"data: [DONE]", True),
        (b"data: [DONE]\r", True),
        (b'data: {"error": "x"}', True),
        (delta('data: {"error": 1}'), False),
    ],
)
def test_it_knows_whether_a_stream_may_end(stream: bytes, is_complete: bool) -> None:
    """B9."""
    tap = StreamTap()
    tap.feed(stream)

    assert tap.is_complete is is_complete
    assert tap.is_complete is is_complete


def test_the_last_usage_counts() -> None:
    tap = StreamTap()
    tap.feed(event({"usage": {"prompt_tokens": 1}}) + event({"usage": USAGE}) + delta("x"))

    assert tap.usage == SEEN


def test_a_line_too_long_turns_it_off_for_good() -> None:
    tap = StreamTap()
    tap.feed(b"data: ")
    long = b"x" * (MAX_LINE_BYTES + 1)

    assert tap.feed(long) == long
    assert tap.off
    assert tap.feed(b"\n\n" + DONE + delta("x")) == b"\n\n" + DONE + delta("x")
    assert tap.is_complete
    assert tap.is_inside_event


def test_a_line_at_the_limit_is_looked_at() -> None:
    tap = StreamTap()
    tap.feed(b"x" * MAX_LINE_BYTES)
    tap.feed(b"\n" + DONE)

    assert tap.done
    assert not tap.off


def test_a_long_line_in_small_pieces_costs_no_more_than_its_length() -> None:
    """B14: joining all that is there at every piece would take minutes."""
    tap = StreamTap()
    for _ in range(100_000):
        tap.feed(b"0123456789")

    assert not tap.off


def test_behind_the_end_one_return_passes_however_the_stream_is_cut() -> None:
    """Found by fuzzing: byte by byte, a second return passed for the same blank line."""
    stream = b"data: [DONE]\r\n\r\r\ndata: more"

    whole, single = StreamTap(), StreamTap()

    assert whole.feed(stream) == b"data: [DONE]\r\n\r"
    assert b"".join(single.feed(bytes([byte])) for byte in stream) == b"data: [DONE]\r\n\r"


def test_what_stands_on_two_lines_is_read_as_two_however_the_stream_is_cut() -> None:
    """Found by fuzzing: in one piece, half a usage behind a whole one hid it."""
    whole = b"data: " + json.dumps({"usage": USAGE}).encode()
    stream = whole + b'\n\ndata: {"usage":\n\n{"x": 1\ndata: {\n"error"\n'

    tap, single = StreamTap(), StreamTap()
    tap.feed(stream)
    for byte in stream:
        single.feed(bytes([byte]))

    assert tap.usage == single.usage == SEEN
    assert tap.failed is single.failed is False


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"usage": USAGE}, SEEN),
        ({"usage": None}, None),
        ({"usage": []}, None),
        ({}, None),
        ([], None),
        (None, None),
        ({"usage": {}}, Usage(0, 0, 0)),
        ({"usage": {"prompt_tokens": True, "completion_tokens": "7"}}, Usage(0, 0, 0)),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": 2**60}}, Usage(0, 0, 0)),
        ({"usage": {"prompt_tokens_details": []}}, Usage(0, 0, 0)),
        ({"usage": {"prompt_tokens_details": {"cached_tokens": None}}}, Usage(0, 0, 0)),
    ],
)
def test_usage_is_believed_only_if_it_is_believable(
    document: object, expected: Usage | None
) -> None:
    assert usage_of(document) == expected
    assert usage_in(json.dumps(document).encode()) == expected


def test_usage_that_is_not_json_is_none() -> None:
    assert usage_in(b"{") is None
    assert usage_in(b"\xff") is None
