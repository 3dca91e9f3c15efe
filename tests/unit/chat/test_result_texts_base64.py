"""Base64 inside the text of a tool result."""

import base64
import random
import struct
import time

import pytest

from chat_proxy.chat.result_texts import (
    LEAST_BASE64_CHARS,
    LEAST_SEARCHED_CHARS,
    Base64Run,
    Base64Search,
    base64_runs,
    has_base64,
)
from tests.unit.chat.payloads import (
    BYTES,
    ENCODED,
    PROSE,
    WITH_BASE64,
    WITHOUT_BASE64,
    WRAPPED,
)


@pytest.mark.parametrize("name", WITH_BASE64)
def test_base64_is_found_where_it_begins_and_ends(name: str) -> None:
    before, payload, after = WITH_BASE64[name]
    start = len(PROSE + before)

    found = list(base64_runs(f"{PROSE}{before}{payload}{after}"))

    assert found == [Base64Run(start, start + len(payload), len(BYTES))]


@pytest.mark.parametrize("name", WITH_BASE64)
@pytest.mark.parametrize("max_chars", [0, 1, 200, 3_000, 100_000])
def test_a_search_never_overlooks_base64_however_little_it_examines(
    name: str, max_chars: int
) -> None:
    assert Base64Search(max_chars).may_find(f"{PROSE}{''.join(WITH_BASE64[name])}")


@pytest.mark.parametrize("name", WITHOUT_BASE64)
def test_what_only_looks_like_base64_is_none(name: str) -> None:
    text = f"{PROSE}{WITHOUT_BASE64[name]}"

    assert list(base64_runs(text)) == []
    assert list(base64_runs(WITHOUT_BASE64[name])) == []
    assert not Base64Search().may_find(text)


@pytest.mark.parametrize(
    "content",
    [
        b"All work and no play makes Jack a dull boy.\n" * 9,
        b'{"name": "value", "numbers": [1, 2, 3]}' * 9,
        "Get-ChildItem -Path C:\\Users".encode("utf-16-le") * 9,
        struct.pack("<60d", *map(float, range(60))),
        bytes(range(256)),
        b"GIF89a\x01\0\x01\0\x80\x01\0\xff\xd8" + bytes(600) + bytes(range(20)),
    ],
)
def test_base64_is_found_whatever_it_encodes(content: bytes) -> None:
    encoded = base64.b64encode(content).decode()

    [found] = base64_runs(f"{PROSE} {encoded} end")

    assert found.size == len(content)


def test_every_run_is_found() -> None:
    text = f"{PROSE}{ENCODED} and\n{WRAPPED}and data:;base64,{ENCODED}, {ENCODED[:199]}"

    assert [run.size for run in base64_runs(text)] == [3_001, 3_001, 3_001]


def test_a_data_url_is_trusted_whatever_its_letters() -> None:
    text = f"{PROSE}src=data:image/png;base64,{'A' * 400}"

    assert [run.size for run in base64_runs(text)] == [300]
    assert not has_base64(f"{PROSE}src={'A' * 400}")


@pytest.mark.parametrize(("chars", "is_found"), [(LEAST_BASE64_CHARS, True), (199, False)])
def test_a_run_must_be_long(chars: int, is_found: bool) -> None:
    assert has_base64(f"{PROSE}({ENCODED[:chars]})") is is_found


@pytest.mark.parametrize(("chars", "is_found"), [(LEAST_SEARCHED_CHARS, False), (1_001, True)])
def test_a_short_text_is_not_searched(chars: int, is_found: bool) -> None:
    assert has_base64(f"{ENCODED[:500]} {'.' * (chars - 501)}") is is_found


@pytest.mark.parametrize("offset", range(0, 410, 7))
def test_a_run_is_found_at_any_position(offset: int) -> None:
    text = f"{'.' * offset} {ENCODED[:203]} {PROSE}"

    assert [run.start for run in base64_runs(text)] == [offset + 1]


def _around(noise: str, choose: random.Random) -> str:
    return "".join(choose.choices(noise, k=choose.randrange(600)))


@pytest.mark.parametrize("noise", ["ab.c ", "a,b;", 'x": ', "é漢😀. "])
def test_a_run_is_found_between_other_letters(noise: str) -> None:
    choose = random.Random(7)
    for _ in range(50):
        before, after = _around(noise, choose), _around(noise, choose)
        text = f"{before}({ENCODED[:300]}){after}{PROSE}"

        assert [run.start for run in base64_runs(text)] == [len(before) + 1]


@pytest.mark.parametrize(
    ("bomb", "times"),
    [
        ("a", 1_000_000),
        ("a/", 500_000),
        ("\\", 1_000_000),
        ("\\n", 500_000),
        ("a" * 199 + " ", 5_000),
        ("a" * 199 + ",", 5_000),
        ("ab1" * 23 + "\n", 14_000),
        ("a" * 60 + "\n" + "b" * 61 + "\n", 8_000),
        ("-_", 500_000),
        ("=", 1_000_000),
        ("data:", 200_000),
        (";base64," + "A" * 200, 4_800),
    ],
)
def test_a_text_made_to_hurt_takes_no_time(bomb: str, times: int) -> None:
    long = bomb * times
    started = time.process_time()

    list(base64_runs(long))
    assert time.process_time() - started < 1

    started = time.process_time()
    Base64Search().may_find(long)
    assert time.process_time() - started < 0.1
