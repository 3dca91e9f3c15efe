"""Rows B24 and B25: headers of every kind, and redirects."""

import json

import pytest

from tests.faults.faulty import Says, is_error, large_json, whole
from tests.support.fake_model import COMPLETION, Line, Received
from tests.support.live import chat_request
from tests.support.meeting import Stage

pytestmark = pytest.mark.anyio


async def test_b24_interim_answers_and_trailers_are_dropped(stage: Stage) -> None:
    body = json.dumps(COMPLETION).encode()
    interim = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
        b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    )
    final = (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n"
        b"%x\r\n%s\r\n0\r\nx-sum: 1\r\n\r\n" % (len(body), body)
    )
    async with stage(Says(interim, final)) as they:
        answer = await they.ask()
        again = await they.ask()

    assert answer.body == again.body == body
    assert not {"link", "trailer", "x-sum"} & set(answer.headers)


@pytest.mark.parametrize("length", [0, 5, 100])
async def test_b23_b24_an_interim_answer_says_nothing_about_the_next(
    stage: Stage, length: int
) -> None:
    """The answer after it ends with its connection."""
    interim = f"HTTP/1.1 103 Early Hints\r\ncontent-length: {length}\r\n\r\n".encode()
    final = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"a":1}'
    async with stage(Says(interim, final, then="close")) as they:
        answer = await they.ask()

    assert (answer.status, answer.body) == (200, b'{"a":1}')


@pytest.mark.parametrize(
    "trailers",
    [b"x-long: " + b"y" * 1_000_000, b"\r\n".join(b"x-%d: y" % n for n in range(100_000))],
    ids=["one", "many"],
)
async def test_b24_trailers_without_end_are_refused(stage: Stage, trailers: bytes) -> None:
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    says = Says(head + b'7\r\n{"a":1}\r\n0\r\n', trailers + b"\r\n\r\n")
    async with stage(says) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_invalid_response")


async def test_b24_a_chunk_extension_without_end_is_refused(stage: Stage) -> None:
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    says = Says(head + b"7;a=" + b"y" * 1_000_000 + b'\r\n{"a":1}\r\n0\r\n\r\n')
    async with stage(says) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_invalid_response")


@pytest.mark.parametrize(
    "encoding",
    [b"deflate, chunked", b"gzip\r\ntransfer-encoding: chunked", b"chunked, deflate", b"xchunked"],
)
async def test_b24_a_body_in_an_unknown_transfer_encoding_is_refused(
    stage: Stage, encoding: bytes
) -> None:
    """It would reach the client compressed, without a word about it."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: " + encoding
    async with stage(Says(head + b'\r\n\r\n7\r\n{"a":1}\r\n0\r\n\r\n', then="close")) as they:
        answer = await they.ask()

    assert answer.status == 502
    assert is_error(answer, 502, "upstream_invalid_response")


@pytest.mark.parametrize("encoding", [b"chunked", b"Chunked", b" chunked "])
async def test_b24_a_chunked_body_is_passed_however_it_is_spelled(
    stage: Stage, encoding: bytes
) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: " + encoding
    async with stage(Says(head + b'\r\n\r\n7\r\n{"a":1}\r\n0\r\n\r\n')) as they:
        answer = await they.ask()

    assert (answer.status, answer.body) == (200, b'{"a":1}')


@pytest.mark.parametrize("control", [1, 7, 8, 11, 12, 27, 31, 127])
async def test_b24_f8_a_header_with_a_control_character_is_dropped(
    stage: Stage, control: int
) -> None:
    """A terminal that shows it would obey; a tab is harmless."""
    bad = b"x-bad: a%cb\r\nx-good: a\tb\r\n" % control
    says = Says(b"HTTP/1.1 200 OK\r\n" + bad + b'content-length: 7\r\n\r\n{"a":1}')
    async with stage(says) as they:
        answer = await they.ask()

    assert (answer.status, answer.headers["x-good"]) == (200, "a\tb")
    assert "x-bad" not in answer.headers


@pytest.mark.parametrize(
    "header",
    [
        "x-long: " + "y" * 40_000,
        "\r\n".join(f"x-{n}: " + "y" * 1_000 for n in range(60)),
        "\r\n".join(f"x-{n}: y" for n in range(500)),
        "x-huge: " + "y" * 1_000_000,
    ],
    ids=["one", "together", "many", "megabyte"],
)
async def test_b24_headers_without_end_are_refused(stage: Stage, header: str) -> None:
    async with stage(Says(whole("200 OK", b'{"a":1}', header))) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_invalid_response")


@pytest.mark.parametrize("size", [40_000, 60_000])
async def test_b24_headers_in_several_reads_are_measured_together(stage: Stage, size: int) -> None:
    lines = "\r\n".join(f"x-{number}: " + "y" * 1_000 for number in range(size // 1_000))
    says = whole("200 OK", b'{"a":1}', lines)
    async with stage(Says(says[:30_000], says[30_000:])) as they:
        answer = await they.ask()

    assert is_error(answer, 502, "upstream_invalid_response")


async def test_b24_a_large_body_beside_its_headers_is_no_large_header(stage: Stage) -> None:
    """What counts is the headers' own size."""
    body = large_json(100_000)
    async with stage(Says(whole("200 OK", body))) as they:
        answer = await they.ask()

    assert answer.body == body


@pytest.mark.parametrize(
    "header",
    [
        b"x-bad: a\rb",
        b"x-bad: a\0b",
        b"x bad: a",
        b"x-folded: a\r\n b",
        b"x-folded: a\n\tset-cookie: b",
        b"x-latin: \xe4\xff",
        b"x-empty:",
        b": nameless",
        b"x-split: a\nset-cookie: b",
    ],
)
async def test_b24_f8_an_absurd_header_is_dropped_refused_or_harmless(
    stage: Stage, header: bytes
) -> None:
    """Never a 500, never a header of the upstream's making."""
    says = Says(b"HTTP/1.1 200 OK\r\n" + header + b'\r\ncontent-length: 7\r\n\r\n{"a":1}')
    async with stage(says) as they:
        answer = await they.ask()

    assert answer.status in (200, 502)
    assert "set-cookie" not in answer.headers
    assert not any(set(value) & set("\r\n\0") for value in answer.headers.values())


@pytest.mark.parametrize(
    "answer_bytes",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x00\x01\x02\xff",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 000 X\r\ncontent-length: 0\r\n\r\n" + whole("200 OK", b"{}"),
        b"HTTP/1.1 99 X\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 600 X\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 999 X\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}}",
        b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\n{}",
        b"HTTP/2.0 200 OK\r\ncontent-length: 2\r\n\r\n{",
    ],
)
async def test_b24_what_is_not_http_is_a_502(stage: Stage, answer_bytes: bytes) -> None:
    async with stage(Says(answer_bytes, then="close")) as they:
        answer = await they.ask()

    assert answer.status == 502
    assert answer.error["code"] in ("upstream_invalid_response", "upstream_reset")


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
async def test_b25_redirects_are_neither_followed_nor_passed_on(
    stage: Stage, status: int, path: str
) -> None:
    there = whole(f"{status} X", b"", "location: http://127.0.0.1:1/secret")

    async def behave(received: Received, line: Line) -> None:
        await line.send(there)

    async with stage(behave) as they:
        they.model.behaviour = behave
        await they.client.send(chat_request().replace(b"/v1/chat/completions", path.encode()))
        answer = await they.client.answer()

    assert is_error(answer, 502, "upstream_redirect")
    assert "location" not in answer.headers
    assert b"secret" not in answer.body
