"""A conversation that has grown is counted from where it was, and never otherwise than anew."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest

from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.chat.body.prefixes import BodyPrefixes
from chat_proxy.chat.body.request import ChatRequest, PrefixedRequest, read_request
from chat_proxy.chat.conversation import Conversation
from chat_proxy.proxy.sizing import tokenizers as counting
from chat_proxy.proxy.sizing.tokenizers import Tokenizers
from chat_proxy.tokens.counter import RequestCount, count_request, count_within
from chat_proxy.tokens.overheads import CountingRules, rules_for
from chat_proxy.tokens.tiktoken_counter import TiktokenCounter
from chat_proxy.tokens.token_counter import TokenCounter
from chat_proxy.tokens.tools import Definitions
from tests.unit.chat.shapes import turn

Fields = dict[str, Any]

LIMITS = RequestLimits(max_depth=64, max_elements=500_000, max_messages=10_000, max_choices=16)
OPEN = rules_for("Qwen/Qwen3-8B", "vllm")
OPENAI = rules_for("gpt-4o", "openai")
TOOLS = [{"type": "function", "function": {"name": "read", "description": "Reads."}}]


def history(turns: int) -> list[Fields]:
    talk = [message for number in range(turns) for message in turn(number)]
    return [{"role": "system", "content": "Be brief."}, *talk]


def conversation_in(request: ChatRequest) -> Conversation:
    assert request.conversation is not None
    return request.conversation


def anew(request: ChatRequest, counter: TokenCounter, rules: CountingRules) -> RequestCount:
    messages = conversation_in(request).messages
    return count_request(messages, request.fields.get("tools"), counter, rules)


@pytest.fixture
async def tokenizers() -> AsyncIterator[Tokenizers]:
    tokenizers = Tokenizers()
    await tokenizers.loaded(OPEN.encoding)
    yield tokenizers
    await tokenizers.close()


@pytest.mark.anyio
@pytest.mark.parametrize("rules", [OPEN, OPENAI], ids=["open", "openai"])
@pytest.mark.parametrize("write", [orjson.dumps, lambda it: json.dumps(it).encode()])
async def test_only_what_is_new_is_read_and_counted(
    write: Callable[[Fields], bytes], rules: CountingRules, tokenizers: Tokenizers
) -> None:
    memory = BodyPrefixes()
    counter = tokenizers.of(rules)
    for turns in range(40, 80, 3):
        body = write({"model": "m", "messages": history(turns), "tools": TOOLS})
        request = read_request(body, LIMITS, memory)

        count = await tokenizers.count(request, conversation_in(request), rules)

        if turns > 40:
            assert isinstance(request, PrefixedRequest)
            assert "fields" not in vars(request)
        assert count == anew(read_request(body, LIMITS), counter, rules)


@pytest.mark.anyio
async def test_what_was_not_counted_by_these_rules_is_read_for_it(tokenizers: Tokenizers) -> None:
    memory = BodyPrefixes()
    body = orjson.dumps({"messages": history(40)})
    for rules in (OPEN, OPENAI, OPENAI, OPEN):
        request = read_request(body, LIMITS, memory)

        count = await tokenizers.count(request, conversation_in(request), rules)

        assert count == anew(request, tokenizers.of(rules), rules)


@pytest.mark.anyio
async def test_a_changed_conversation_is_not_taken_for_the_clients_own(
    tokenizers: Tokenizers,
) -> None:
    memory = BodyPrefixes()
    body = orjson.dumps({"messages": history(40)})
    for _ in range(2):
        request = read_request(body, LIMITS, memory)
        own = conversation_in(request)
        whole = await tokenizers.count(request, own, OPEN)

    shortened = await tokenizers.count(request, own.only(range(90, len(own))), OPEN)

    assert shortened.messages == whole.messages[90:]


@pytest.mark.anyio
async def test_guesses_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TiktokenCounter, "load", lambda _: False)
    tokenizers = Tokenizers()
    request = read_request(orjson.dumps({"messages": history(40)}), LIMITS, BodyPrefixes())

    count = await tokenizers.count(request, conversation_in(request), OPEN)
    await tokenizers.close()

    assert count.is_guess
    assert request.next_prefix.messages > 100
    assert len(tokenizers._beginnings) == 0


def test_what_goes_on_from_a_guess_is_one() -> None:
    """A tokenizer may be loaded between two parts of a history."""
    counter = TiktokenCounter(OPEN.encoding)
    assert counter.load()

    count = count_within(
        history(1),
        Definitions(),
        counter,
        OPEN,
        max_cold_chars=None,
        known=RequestCount((9,), 9, is_guess=True),
    )

    assert count is not None
    assert count.is_guess


@pytest.mark.anyio
async def test_counts_are_kept_for_so_many_messages_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However few bodies there are: a million numbers are eight megabytes."""
    monkeypatch.setattr(counting, "MAX_MESSAGES", 2_000)
    bounded = Tokenizers()
    await bounded.loaded(OPEN.encoding)
    for number in range(20):
        talk = [{"role": "user", "content": f"{number}"}, *[{"content": ""}] * 1_500]
        request = read_request(orjson.dumps({"messages": talk}), LIMITS, BodyPrefixes())
        await bounded.count(request, conversation_in(request), OPEN)
        assert request.next_prefix.messages > 900
    held = len(bounded._beginnings)
    await bounded.close()

    assert held == 2
