from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.wires.event_streams.events import EventSplitter, document_of
from chat_proxy.wires.usage import MAX_LINE_BYTES

STREAM = (
    b": comment\n\n"
    b'event: a\ndata: {"n": 1}\n\n'
    b'data: {"n": 2}\r\n\r\n'
    b"\n"
    b'data: {"n":\ndata: 3}\n\n'
    b"data: [DONE]\n\n"
    b"data: begun"
)


def split(*chunks: bytes) -> tuple[list[bytes], bytes]:
    splitter = EventSplitter()
    events = [event for chunk in chunks for event in splitter.feed(chunk)]
    return events, splitter.rest()


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_the_events_of_a_stream_are_the_same_however_it_is_cut(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[begin:end] for begin, end in pairwise(ends)]

    assert split(*chunks) == split(STREAM)


def test_joined_events_are_the_bytes_of_the_stream() -> None:
    events, rest = split(STREAM)

    assert b"".join(events) + rest == STREAM
    assert rest == b"data: begun"


def test_documents_are_read_from_data_lines_only() -> None:
    documents = [document_of(event) for event in split(STREAM)[0]]

    assert documents == [None, {"n": 1}, {"n": 2}, {"n": 3}, None]


def test_an_event_over_the_limit_is_relayed_in_pieces() -> None:
    large = b"data: " + b"x" * MAX_LINE_BYTES

    events, rest = split(large, b"y\n\n", b"data: {}\n\n")

    assert events == [large, b"y\n\n", b"data: {}\n\n"]
    assert rest == b""


@pytest.mark.parametrize("event", [b"data: {broken\n\n", b"data: [1]\n\n", b"\n\n", b"data\n\n"])
def test_what_is_no_document_is_none(event: bytes) -> None:
    assert document_of(event) is None


def test_a_lone_surrogate_is_read() -> None:
    assert document_of(b'data: {"a": "\\ud83d"}\n\n') == {"a": "\ud83d"}
