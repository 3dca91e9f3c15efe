"""The pieces of a streamed answer on the wire."""

import pytest

from chat_proxy.http.server.response_framing import SMALL_BYTES, chunk_of


@pytest.mark.parametrize("size", [1, 16, SMALL_BYTES - 1, SMALL_BYTES, SMALL_BYTES + 1, 70_000])
def test_a_chunk_begins_with_its_size(size: int) -> None:
    piece = b"x" * size

    assert chunk_of(piece) == f"{size:x}\r\n".encode() + piece + b"\r\n"


def test_nothing_is_no_chunk() -> None:
    """An empty chunk would be the last one."""
    assert chunk_of(b"") == b""
