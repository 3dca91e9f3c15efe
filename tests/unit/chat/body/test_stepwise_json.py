"""A large body is read value by value: the same request comes out, or the same refusal."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.body import request as reading
from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.chat.body.request import read_request
from chat_proxy.errors import BadRequest

LIMITS = RequestLimits(max_depth=6, max_elements=500, max_messages=3, max_choices=2)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(-1e9, 1e9)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
BLANKS = st.sampled_from(["", " ", "\n\t"])
ODD = [
    '{"model":"a","model":"b","messages":[]}',
    '{"messages":[{"role":"user","content":[{"type":"text"},]}]}',
    '{"messages":[{"role":"user","content":[1,2]}],"n":3}',
    '{"messages":[{"content":"\\ud83d"}],"seed":123456789012345678901234567890}',
    '{"messages":[[[[[[[[1]]]]]]]]}',
    '{"messages":[1,1,1,1]}',
    '{"messages":[NaN]}',
    '{"messages":[1e999]}',
    '{"messages":[{"content":"a" "b"}]}',
    '{"messages":[{"content":',
    '{"messages":[',
    '{"messages"',
    "[1]",
    "",
    "\ufeff{}",
    "{} x",
]


def outcome(body: bytes) -> Any:
    """What reading gives: the request, or the code of its refusal."""
    try:
        request = read_request(body, LIMITS)
    except BadRequest as error:
        return error.code
    return request.body, repr(request.fields)


def both(body: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    in_one_go = outcome(body)
    with monkeypatch.context() as patch:
        patch.setattr(reading, "STEPWISE_BYTES", -1)
        return in_one_go, outcome(body)


@pytest.fixture(scope="module")
def patching() -> pytest.MonkeyPatch:
    return pytest.MonkeyPatch()


@given(value=VALUES, before=BLANKS, after=BLANKS, indent=st.sampled_from([None, 1]))
def test_any_request_is_read_alike(
    patching: pytest.MonkeyPatch, value: Any, before: str, after: str, indent: int | None
) -> None:
    text = json.dumps({"messages": value, "n": 1}, indent=indent)

    in_one_go, by_steps = both(f"{before}{text}{after}".encode(), patching)

    assert by_steps == in_one_go


@given(body=st.text('{}[]",:0aé\\ ', max_size=30))
def test_anything_like_json_is_refused_alike(patching: pytest.MonkeyPatch, body: str) -> None:
    in_one_go, by_steps = both(body.encode(), patching)

    assert by_steps == in_one_go


@pytest.mark.parametrize("body", ODD, ids=range(len(ODD)))
def test_odd_bodies_are_read_alike(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    in_one_go, by_steps = both(body.encode(), monkeypatch)

    assert by_steps == in_one_go


def test_a_large_body_is_read_by_steps_and_sent_as_it_came() -> None:
    text = "word " * 1_000_000
    limits = RequestLimits(max_depth=64, max_elements=500, max_messages=3, max_choices=2)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()

    request = read_request(body, limits)

    assert request.body is body
    assert request.fields["messages"][0]["content"] == text
