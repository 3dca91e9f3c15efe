"""Output that is lowered before sending to what the prompt leaves of the window."""

import json
from typing import Any

import pytest

from chat_proxy.proxy.session.output import (
    asks_for_too_much,
    body_to_send,
    output_fields,
    output_left,
    with_fitting_output,
    with_output,
)
from chat_proxy.proxy.session.request import CompactionResult, unchanged_result
from tests.unit.chat.shapes import Fields, user
from tests.unit.proxy.sessions import WINDOW, proxy_with

pytestmark = pytest.mark.anyio

MESSAGES: list[Fields] = [user("The quick brown fox jumps over the lazy dog. " * 100)]


@pytest.mark.parametrize(
    ("limit", "prompt", "least", "left"),
    [(8_000, 1_000, 256, 6_839), (8_000, 7_800, 256, 256), (8_000, 9_000, 16, 16)],
)
def test_what_is_left_has_a_margin_and_a_minimum(
    limit: int, prompt: int, least: int, left: int
) -> None:
    assert output_left(limit, prompt, least) == left


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"max_tokens": 5}, {"max_tokens": 5}),
        ({"max_completion_tokens": 7}, {"max_completion_tokens": 7}),
        ({"max_tokens": 5, "max_completion_tokens": 7}, None),
        ({"max_tokens": True}, {}),
        ({"max_tokens": "9"}, {}),
        ({"max_tokens": None}, {}),
        ({}, {}),
    ],
)
async def test_only_numbers_are_output_fields(
    fields: dict[str, Any], found: dict[str, int] | None
) -> None:
    async with proxy_with() as proxy:
        request = await proxy.request(MESSAGES, **fields)

        assert output_fields(request) == (fields if found is None else found)


async def test_prompt_and_output_that_just_fit_are_sent_as_they_are() -> None:
    async with proxy_with() as proxy:
        tokens = (await proxy.request(MESSAGES)).measured.tokens
        request = await proxy.request(MESSAGES, max_tokens=WINDOW - tokens)

        assert not asks_for_too_much(request, tokens)
        result = unchanged_result(request)
        assert with_fitting_output(request, result) is result


async def test_output_that_does_not_fit_is_lowered_and_recorded() -> None:
    async with proxy_with() as proxy:
        request = await proxy.request(MESSAGES, max_tokens=WINDOW, seed=7)
        tokens = request.measured.tokens

        result = with_fitting_output(request, unchanged_result(request))

        left = result.output["max_tokens"]
        assert asks_for_too_much(request, tokens)
        assert WINDOW - tokens - WINDOW // 40 < left < WINDOW - tokens
        assert (result.stages, result.label) == (("clip_output",), "trimmed")
        sent = json.loads(body_to_send(request, result))
        assert sent == {"model": "fake", "messages": MESSAGES, "max_tokens": left, "seed": 7}


async def test_only_what_is_too_much_is_lowered() -> None:
    async with proxy_with() as proxy:
        request = await proxy.request(MESSAGES, max_tokens=100, max_completion_tokens=WINDOW)

        result = with_fitting_output(request, unchanged_result(request))

        assert result.output["max_tokens"] == 100
        assert result.output["max_completion_tokens"] < WINDOW


async def test_a_prompt_that_leaves_no_answer_is_not_changed() -> None:
    """The upstream has the last word."""
    async with proxy_with(budget={"context_window": 1_000}) as proxy:
        request = await proxy.request(MESSAGES * 2, max_tokens=500)
        result = unchanged_result(request)

        assert with_fitting_output(request, result) is result
        assert body_to_send(request, result) is request.request.body


async def test_nothing_is_lowered_where_that_is_off_or_no_window_is_known() -> None:
    async with proxy_with(replay={"clip_output": False}) as proxy:
        request = await proxy.request(MESSAGES, max_tokens=WINDOW)
        assert not asks_for_too_much(request, request.measured.tokens)
    async with proxy_with(budget={"context_window": None}) as proxy:
        request = await proxy.request(MESSAGES, max_tokens=10**9)
        assert request.measured.window is None
        assert not asks_for_too_much(request, request.measured.tokens)


async def test_a_label_that_says_more_than_trimmed_stays() -> None:
    async with proxy_with() as proxy:
        request = await proxy.request(MESSAGES, max_tokens=WINDOW)
        built: CompactionResult = unchanged_result(request)._replace(label="built")

        assert with_output(built, {"max_tokens": 9}).label == "built"
