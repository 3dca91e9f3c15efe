"""Rows A1 to A3, A5 and A7 to A10: bodies that cannot be read, or only in one way."""

import time

import pytest

from tests.faults.client.conftest import Desk
from tests.faults.faulty import forget_the_peak, peak_kilobytes
from tests.support.conversations import listening
from tests.support.fake_model import Received
from tests.support.live import RawAnswer, chat_body, chat_request, raw_client

pytestmark = pytest.mark.anyio

DEEP_MILLISECONDS = 5
SECRET = b"my-private-words"


def assert_refused(answer: RawAnswer, received: list[Received], code: str) -> None:
    """It is a 400 in OpenAI's shape, the connection stays, and the upstream was not asked."""
    assert answer.status == 400
    assert answer.error["code"] == answer.headers["x-chat-proxy-error"] == code
    assert answer.error["type"] == "invalid_request_error"
    assert answer.error["param"] is None
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    assert "connection" not in answer.headers
    assert received == []


@pytest.mark.parametrize(
    "body",
    [b"", b" ", b"{", b'{"a":', chat_body() + b"x", chat_body() * 2, b"{'a': 1}", b'{"a":1,}'],
    ids=["empty", "blank", "open", "half", "rubbish behind", "twice", "quotes", "comma"],
)
async def test_a1_what_is_not_json_never_reaches_the_upstream(body: bytes, ask: Desk) -> None:
    answer, received = await ask(chat_request(body))

    assert_refused(answer, received, "invalid_json")


async def test_a1_the_refusal_tells_the_place_and_not_the_text(ask: Desk) -> None:
    with listening() as heard:
        answer, _ = await ask(chat_request(b'{"content": "' + SECRET + b'" "more"}'))

    [line] = heard.lines("request")
    assert "at character 31" in answer.error["message"]
    assert (line["status"], line["code"]) == (400, "invalid_json")
    assert SECRET not in answer.body
    assert SECRET.decode() not in heard.text


@pytest.mark.parametrize("body", [b"[]", b"null", b"3", b'"text"', b"true"])
async def test_a2_json_that_is_no_object_is_refused(body: bytes, ask: Desk) -> None:
    answer, received = await ask(chat_request(body))

    assert_refused(answer, received, "invalid_json_root")


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\xbd"}',
        *(chat_body().decode().encode(name) for name in ("utf-16", "utf-16-le", "utf-32")),
    ],
    ids=["byte", "surrogate", "utf-16", "utf-16-le", "utf-32"],
)
async def test_a3_what_is_not_utf_8_is_refused(body: bytes, ask: Desk) -> None:
    answer, received = await ask(chat_request(body))

    assert_refused(answer, received, "invalid_encoding")


async def test_a3_a_byte_order_mark_is_accepted(ask: Desk) -> None:
    body = b"\xef\xbb\xbf" + chat_body()

    answer, received = await ask(chat_request(body))

    assert answer.status == 200
    assert [r.body for r in received] == [body]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1E+400"])
async def test_a5_what_is_no_number_in_json_is_refused(number: str, ask: Desk) -> None:
    answer, received = await ask(chat_request(b'{"temperature":%s}' % number.encode()))

    assert_refused(answer, received, "invalid_number")


async def test_a7_digits_without_end_are_refused(ask: Desk) -> None:
    answer, received = await ask(chat_request(b'{"seed":' + b"7" * 5_000 + b"}"))

    assert_refused(answer, received, "invalid_number")


async def test_a8_of_a_key_that_stands_twice_the_last_is_checked_and_sent(ask: Desk) -> None:
    before = ask.figure("chat_proxy_dup_key_total")
    body = b'{"model":"a","n":1,"messages":[],"model":"fake"}'

    answer, received = await ask(chat_request(body))

    assert answer.status == 200
    assert [r.body for r in received] == [b'{"model":"fake","n":1,"messages":[]}']
    assert ask.figure("chat_proxy_dup_key_total") == before + 1


async def test_a8_a_forbidden_value_cannot_hide_behind_a_harmless_one(ask: Desk) -> None:
    answer, received = await ask(chat_request(b'{"n":1,"messages":[],"\\u006e":1000000000}'))

    assert (answer.status, answer.error["code"]) == (400, "invalid_value")
    assert received == []


@pytest.mark.parametrize("depth", [64, 100_000])
@pytest.mark.parametrize("mark", ["[]", "{}"], ids=["lists", "objects"])
async def test_a9_what_is_nested_too_deeply_is_refused_in_no_time(
    depth: int, mark: str, ask: Desk
) -> None:
    opening = b'{"a":' if mark == "{}" else b"["
    body = b'{"a":' + opening * depth + b"0" + mark[1].encode() * depth + b"}"
    quickest = 1.0
    for _ in range(10):
        began = time.process_time()
        answer, received = await ask(chat_request(body))
        quickest = min(quickest, time.process_time() - began)
        assert_refused(answer, received, "too_deep")

    # Of the processor's time, with both ends of the transport in it.
    assert quickest * 1000 < DEEP_MILLISECONDS + len(body) / 50_000


async def test_a9_what_is_nested_to_the_limit_passes(ask: Desk) -> None:
    answer, received = await ask(chat_request(b'{"a":' + b"[" * 63 + b"]" * 63 + b"}"))

    assert answer.status == 200
    assert len(received) == 1


async def test_a10_thirty_megabytes_of_nothing_are_refused_unparsed(ask: Desk) -> None:
    piece = b"{}," * 20_000
    size = len(piece) * 500 + 4
    async with raw_client(ask.proxy) as client:
        forget_the_peak()
        before = peak_kilobytes()
        await client.send(chat_request(b"[")[:-1].replace(b": 1\r", b": %d\r" % size) + b"[")
        for _ in range(500):
            await client.send(piece)
        await client.send(b"{}]")
        answer = await client.answer()
        grown = peak_kilobytes() - before

    assert_refused(answer, [], "too_complex")
    assert grown < 50_000  # the body and some more; parsed, it would be two gigabytes
