"""What is an overflow, what it tells, and what only looks like one."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.upstream.overflow import MAX_BYTES, STATUSES, Overflow, is_sane, overflow_in
from tests.unit.upstream.overflow_bodies import (
    BYTES,
    LOOK_ALIKES,
    OPENAI,
    OTHERS,
    VLLM,
    VLLM_IS,
    Case,
    dumped,
    flat,
    told,
    vllm,
)


def named(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


@named([*VLLM, *OPENAI, *OTHERS])
def test_an_overflow_is_recognised_with_all_it_tells(case: Case) -> None:
    """BUGS 13."""
    assert overflow_in(case.status, case.body) == case.expected


@named(BYTES)
def test_too_many_bytes_are_told_from_too_many_tokens(case: Case) -> None:
    """BUGS 17, 33."""
    assert overflow_in(case.status, case.body) == case.expected


@named(LOOK_ALIKES)
def test_what_only_looks_like_an_overflow_is_none(case: Case) -> None:
    """BUGS 14."""
    assert overflow_in(case.status, case.body) is None


def test_there_are_enough_cases() -> None:
    assert len([*VLLM, *OPENAI, *OTHERS, *BYTES]) >= 30
    assert len(LOOK_ALIKES) >= 15


@named([case for case in (*VLLM, *OPENAI, *OTHERS) if case.status == 400])
def test_an_overflow_behind_a_rate_limits_status_is_none(case: Case) -> None:
    """BUGS 14."""
    assert overflow_in(429, case.body) is None


@named([case for case in (*VLLM, *OPENAI) if case.body.startswith(b'{"error"')])
def test_an_overflow_may_be_the_first_event_of_a_stream(case: Case) -> None:
    assert overflow_in(200, case.body) == case.expected


@pytest.mark.parametrize(
    "limit", [0, 1, 3, 63, 100_000_001, 10**19, int("9" * 20), int("9" * 25), int("9" * 400)]
)
def test_an_absurd_limit_is_not_believed(limit: int) -> None:
    """BUGS 33: it is an overflow all the same."""
    body = vllm(f"{VLLM_IS} {limit} tokens. However, your request has 9000 input tokens.")

    found = overflow_in(400, body)

    assert found is not None
    assert found.limit is None
    assert not found.output_alone


@pytest.mark.parametrize("limit", [64, 2048, 100_000_000])
def test_a_sane_limit_is_believed(limit: int) -> None:
    found = overflow_in(400, vllm(f"{VLLM_IS} {limit} tokens."))

    assert found == told(limit)
    assert is_sane(limit)


def test_an_absurd_prompt_is_not_believed() -> None:
    body = dumped({"error": {"n_prompt_tokens": 10**12, "n_ctx": -4}})

    assert overflow_in(400, body) == Overflow()


@pytest.mark.parametrize("words", ["'{}'", '"{}"', "`{}`", "type: '{}'. Use text. (value={})"])
def test_numbers_that_a_request_may_have_brought_are_not_believed(words: str) -> None:
    """A client must not teach a window to all others by what an error cites of its request."""
    cited = f"{VLLM_IS} 100 tokens. However, your request has 9000 input tokens."

    found = overflow_in(400, vllm("Unsupported part " + words.replace("{}", cited)))

    assert found == Overflow()


def test_a_cited_error_within_an_error_is_not_believed() -> None:
    cited = "{'message': 'maximum context length is 100 tokens"

    assert overflow_in(400, vllm(f"Unsupported part '{cited}'")) == Overflow()


def test_a_prompt_that_fills_the_window_is_not_the_outputs_fault() -> None:
    words = "tokens from the input messages and 10 tokens for the completion"
    size = "maximum context length of 8192 tokens. You requested a total of 9000 tokens:"

    fits, fills = (overflow_in(400, flat(f"{size} {n} {words}")) for n in (8191, 8192))

    assert fits == told(8192, 8191, 10, alone=True)
    assert fills == told(8192, 8192, 10)


def test_a_body_without_an_end_is_read_from_its_beginning() -> None:
    body = vllm(f"{VLLM_IS} 8192 tokens. However" + "x" * MAX_BYTES)

    assert overflow_in(400, body) == told(8192)


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "1",
        "{'",
        "x's ",
        "{'message': '",
        "exceeds the model's maximum ",
        "prompt contains 11 tokens",
        "maximum context length is 1 tokens. however, you requested about 1 tokens (",
    ],
)
def test_no_body_takes_long(unit: str) -> None:
    body = dumped({"error": {"message": unit * (MAX_BYTES // len(unit))}})
    began = time.process_time()

    overflow_in(400, body)
    overflow_in(400, body[:-2] + b"maximum context limit")

    assert time.process_time() - began < 1


_words = st.sampled_from(
    ["maximum context length is 8192 tokens", "prompt is too long: 9 tokens > 8 maximum", "no", "'"]
)
_KEYS = """
    error message detail code type n_ctx n_prompt_tokens metadata raw response
"""
_keys = st.sampled_from(_KEYS.split())
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9_999) | _words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_keys, inner),
    max_leaves=8,
)


@given(st.integers(100, 599), _values)
def test_any_document_is_read_without_fail(status: int, document: Any) -> None:
    found = overflow_in(status, dumped(document))

    assert found is None or status in STATUSES
    assert found is None or found.limit is None or is_sane(found.limit)


@given(st.sampled_from(sorted(STATUSES)), st.binary(max_size=200))
def test_any_bytes_are_read_without_fail(status: int, body: bytes) -> None:
    found = overflow_in(status, body)

    assert found is None or found.limit is None
