"""What a body consists of, and the memory that is expected of it."""

import json
import tracemalloc
from typing import Any

import pytest

from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.chat.body.prefixes import BodyPrefixes
from chat_proxy.chat.body.request import PrefixedRequest, read_request
from chat_proxy.chat.body.structure import Structure, is_wide, structure_of

LIMITS = RequestLimits(max_depth=64, max_elements=500_000, max_messages=10_000, max_choices=16)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], Structure(1, 0, depth=1)),
        ({"a": 1, "b": "x"}, Structure(1, 2, depth=1)),
        ([[], {}, [0]], Structure(4, 4, depth=2)),
        ({"a": {"b": {"c": None}}}, Structure(3, 3, depth=3)),
    ],
)
def test_lists_objects_and_values_are_counted(value: Any, expected: Structure) -> None:
    assert structure_of(value, b"") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", False),
        ("\u00e9\u4e2d\ud55c", False),
        ("\U0001f600", True),
        ("\U0010ffff", True),
        (r"\ud55c", False),
        (r"\ud83d\ude00", True),
        (r"\uD83D\uDE00", True),
        (r"\udBff\udfff", True),
    ],
)
def test_a_text_is_wide_by_one_character(text: str, expected: bool) -> None:
    assert is_wide(text.encode()) is expected


def request_of(**fields: Any) -> bytes:
    return json.dumps({"model": "m", **fields}, separators=(",", ":")).encode()


BODIES = {
    "text": request_of(messages=[{"role": "user", "content": "word " * 100_000}]),
    "messages": request_of(messages=[{"role": "user", "content": "word " * 20}] * 5_000),
    "objects": request_of(messages=[], metadata=[{"a": 0}] * 60_000),
    "empty objects": request_of(messages=[], metadata=[{}] * 100_000),
    "empty lists": request_of(messages=[], metadata=[[]] * 100_000),
    "strings": request_of(messages=[], metadata=["ab"] * 100_000),
    "keys": request_of(messages=[], metadata={f"{n:06}": "ab" for n in range(40_000)}),
    "small": request_of(messages=[], metadata=["a"] * 2_000),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_what_is_expected_is_at_least_half_of_what_is_taken(body: bytes) -> None:
    tracemalloc.start()
    request = read_request(bytes(bytearray(body)), LIMITS)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert request.memory_bytes > taken / 2
    assert request.memory_bytes < 5 * taken


def test_an_ordinary_body_counts_by_its_length_and_a_complex_one_for_more() -> None:
    plain = read_request(BODIES["text"], LIMITS)
    complex_one = read_request(BODIES["objects"], LIMITS)

    assert plain.work_bytes == len(plain.body)
    assert complex_one.work_bytes > 5 * len(complex_one.body)


def test_a_body_with_a_known_beginning_counts_as_if_it_had_none() -> None:
    """Its messages are parsed later, if they are needed; then the memory must be there."""
    prefixes = BodyPrefixes()
    messages = [{"role": "user", "content": [{"a": 0}] * 50}] * 500
    bodies = [request_of(messages=messages[:count]) for count in (400, 450, 500)]

    *_, grown = [read_request(body, LIMITS, prefixes) for body in bodies]
    whole = read_request(bodies[-1], LIMITS)

    assert isinstance(grown, PrefixedRequest)
    assert grown.memory_bytes == pytest.approx(whole.memory_bytes, rel=0.01)
