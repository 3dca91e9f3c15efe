"""Row A12: compressed requests are decoded within the limits, and forwarded decoded."""

import gzip
import sys
from importlib import import_module

import pytest

from tests.faults.client.conftest import Desk
from tests.faults.faulty import answered, is_error
from tests.support.live import chat_body, chat_request
from tests.support.wire_model import PATHS, post

pytestmark = pytest.mark.anyio

zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def packed(body: bytes, encoding: str) -> bytes:
    return bytes(zstd.compress(body)) if encoding == "zstd" else gzip.compress(body)


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "identity, gzip", "x"])
async def test_a12_a_body_in_another_encoding_is_refused_and_counted(
    encoding: str, ask: Desk
) -> None:
    figure = answered(415, "unsupported_content_encoding")
    before = ask.figure(figure)

    answer, received = await ask(chat_request(chat_body(), f"content-encoding: {encoding}"))

    assert is_error(answer, 415, "unsupported_content_encoding")
    assert ask.figure(figure) == before + 1
    assert received == []


@pytest.mark.parametrize("path", [*PATHS.values(), "/v1/embeddings"])
@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip", "zstd"])
async def test_a12_a_compressed_body_is_forwarded_decoded(
    encoding: str, path: str, ask: Desk
) -> None:
    body = chat_body(input="Hi", padding="\u00e9 " * 200_000)

    answer, _ = await ask(
        post(path, packed(body, encoding.lower()), f"content-encoding: {encoding}")
    )

    [received] = [each for each in ask.model.requests if each.method == "POST"]
    assert answer.status == 200
    assert (received.target, received.body) == (path, body)
    assert received.header("content-encoding") is None
    assert received.header("content-length") == str(len(body))


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("damage", ["cut", "changed", "followed", "plain"])
async def test_a12_a_damaged_body_is_refused(damage: str, encoding: str, ask: Desk) -> None:
    whole = packed(chat_body(user="".join(map(chr, range(32, 120)))), encoding)
    sent = {
        "cut": whole[:-9],
        "changed": whole[:2] + bytes(~each & 255 for each in whole[2:12]) + whole[12:],
        "followed": whole + b"more",
        "plain": chat_body(),
    }[damage]

    answer, received = await ask(chat_request(sent, f"content-encoding: {encoding}"))

    assert is_error(answer, 400, "invalid_content_encoding")
    assert received == []


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
async def test_a12_a_body_in_several_parts_is_decoded_whole(encoding: str, ask: Desk) -> None:
    body = chat_body(user="x" * 700_000)
    parts = body[:1_000], body[1_000:600_000], body[600_000:]
    sent = b"".join(packed(part, encoding) for part in parts)

    answer, received = await ask(chat_request(sent, f"content-encoding: {encoding}"))

    assert answer.status == 200
    assert [each.body for each in received] == [body]


async def test_a12_a_body_that_says_it_is_not_compressed_passes(ask: Desk) -> None:
    answer, received = await ask(chat_request(chat_body(), "content-encoding: identity"))

    assert answer.status == 200
    assert len(received) == 1
