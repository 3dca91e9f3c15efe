from typing import Any

import pytest

from chat_proxy.chat.message import Message
from chat_proxy.chat.tool_names import ResultCall
from chat_proxy.compaction.recall.policy import TOOL_TOKENS, RecallPolicy
from chat_proxy.compaction.recall.references import (
    CONTENTS_TOKENS,
    TOOL_NAME,
    contents_line,
    number_in,
)
from chat_proxy.compaction.recall.tool import DEFINITION
from chat_proxy.tokens.tiktoken_counter import TiktokenCounter
from chat_proxy.tokens.tools import tools_tokens


def words(text: str) -> int:
    return len(text.split())


def asked(number: int, text: str) -> tuple[int, Message]:
    return number, Message({"role": "user", "content": text})


def test_the_list_names_the_span_and_what_the_user_asked_for() -> None:
    messages = [asked(1 + at, f"Topic number {at}") for at in range(4)]

    line = contents_line(messages, {}, 4_000, words)

    assert "r1-r4" in line
    assert "r1 Topic number 0; r2 Topic number 1" in line


def test_a_long_list_is_spread_over_all_messages_within_a_few_tokens() -> None:
    messages = [asked(at, f"Topic number {at}") for at in range(500)]

    line = contents_line(messages, {}, 4_000, words)

    assert words(line) <= CONTENTS_TOKENS + 5
    assert "r0 Topic number 0" in line
    assert "r499 Topic number 499" in line


def test_without_words_of_the_user_the_calls_are_the_topics() -> None:
    messages = [(at, Message({"role": "tool", "content": "x"})) for at in range(4)]
    calls = {at: ResultCall("read", f'{{"path": "f{at}.py"}}') for at in range(4)}

    assert "r0 read(path: f0.py)" in contents_line(messages, calls, 4_000, words)


def test_without_messages_there_is_no_line() -> None:
    assert contents_line([], {}, 4_000, words) == ""


def test_numbers_have_a_limit() -> None:
    assert number_in("r1234567") is None
    assert number_in("r12x") is None
    assert number_in("") is None


def test_the_tool_fits_what_is_kept_free_for_it() -> None:
    counter = TiktokenCounter("o200k_base")

    assert tools_tokens([DEFINITION], counter, "json") <= TOOL_TOKENS + 120


def test_the_tool_is_offered_only_where_tools_are_called() -> None:
    tools = {"tools": [{"type": "function", "function": {"name": "read_file"}}]}

    assert not RecallPolicy().offers(tools)
    assert RecallPolicy(enabled=True).offers(tools)
    assert not RecallPolicy(enabled=True).offers({})
    assert not RecallPolicy(enabled=True).offers({**tools, "n": 2})
    assert RecallPolicy(enabled=True, without_tools=True).offers({})


@pytest.mark.parametrize(
    "options",
    [
        {"tools": [DEFINITION]},
        {"tools": [{"name": TOOL_NAME, "input_schema": {}}]},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_schema", "json_schema": {}}},
        {"n": 2},
    ],
    ids=str,
)
def test_the_tool_is_not_offered_where_it_would_spoil_the_answer(
    options: dict[str, Any],
) -> None:
    tools = {"tools": [{"type": "function", "function": {"name": "read_file"}}]}

    assert not RecallPolicy(enabled=True, without_tools=True).offers({**tools, **options})
