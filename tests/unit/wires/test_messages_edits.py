"""The parameters of Messages about context, each with its beta header, become a contract."""

from typing import Any

import pytest

from chat_proxy.wires.contracts.contract import ClearResults, ClearThinking, Contract
from chat_proxy.wires.messages.compaction_blocks import signature_of
from chat_proxy.wires.messages.edits import (
    COMPACT,
    CONTEXT_MANAGEMENT,
    SUMMARIZE,
    betas_in,
    contract_of,
)

Fields = dict[str, Any]
BETAS = frozenset({CONTEXT_MANAGEMENT, COMPACT, SUMMARIZE})


def edited(*edits: Any, betas: frozenset[str] = BETAS) -> Contract | None:
    return contract_of({"context_management": {"edits": list(edits)}}, betas)


def asked(*edits: Any) -> Contract:
    contract = edited(*edits)
    assert contract is not None
    return contract


def tokens(value: Any) -> Fields:
    return {"type": "input_tokens", "value": value}


def uses(value: Any) -> Fields:
    return {"type": "tool_uses", "value": value}


def test_betas_are_read_from_lists_with_blanks_and_from_all_headers() -> None:
    headers = [(b"anthropic-beta", b"a-1, b-2 ,,c-3"), (b"accept", b"x"), (b"anthropic-beta", b"d")]

    assert betas_in(headers) >= {"a-1", "b-2", "c-3", "d"}
    assert "x" not in betas_in(headers)
    assert betas_in([]) == frozenset()


def test_a_mistake_in_a_block_leaves_its_seal_to_its_maker() -> None:
    block = {"type": "compaction", "content": "x", "encrypted_content": "sealed", "signature": "y"}

    contract = contract_of({"messages": [{"role": "assistant", "content": [block]}]}, BETAS)

    assert contract is not None
    assert contract.mistake
    assert contract.sealed == "sealed"


def test_clearing_tool_uses_has_the_defaults_of_the_api() -> None:
    assert asked({"type": "clear_tool_uses_20250919"}).clear_results == ClearResults(
        100_000, None, 3, 0, frozenset(), False
    )


def test_every_parameter_of_clearing_tool_uses_is_read() -> None:
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": uses(7),
        "keep": uses(2),
        "clear_at_least": tokens(500),
        "exclude_tools": ["search"],
        "clear_tool_inputs": ["read", "write"],
    }

    expected = ClearResults(None, 7, 2, 500, frozenset({"search"}), frozenset({"read", "write"}))
    assert asked(edit).clear_results == expected
    assert asked({**edit, "clear_tool_inputs": True}).clear_results == ClearResults(
        None, 7, 2, 500, frozenset({"search"}), True
    )


@pytest.mark.parametrize(
    ("keep", "turns"),
    [
        ("all", None),
        ({"type": "all"}, None),
        (None, 1),
        ({"type": "thinking_turns", "value": 4}, 4),
    ],
)
def test_thinking_is_kept_of_all_or_some_turns(keep: Any, turns: int | None) -> None:
    contract = asked({"type": "clear_thinking_20251015", "keep": keep})

    assert contract.clear_thinking == ClearThinking(turns)


def test_compaction_takes_any_trigger() -> None:
    edit = {"type": "compact_20260112"}

    assert asked(edit) == Contract(compacts=True, trigger=150_000)
    assert asked(
        {
            **edit,
            "trigger": tokens(900),
            "instructions": " Be brief. ",
            "pause_after_compaction": True,
        }
    ) == Contract(compacts=True, trigger=900, instructions="Be brief.", pauses=True)


def test_edits_of_several_types_are_one_contract() -> None:
    contract = asked(
        {"type": "clear_thinking_20251015", "keep": "all"},
        {"type": "clear_tool_uses_20250919"},
        {"type": "compact_20260112"},
    )

    assert contract.clear_thinking == ClearThinking(None)
    assert contract.clear_results is not None
    assert contract.compacts


def test_summarize_compacts_at_once() -> None:
    summarize = {"type": "summarize", "instructions": "  "}

    assert contract_of({"compaction": summarize}, BETAS) == Contract(compacts_now=True)
    assert contract_of(
        {"compaction": {**summarize, "instructions": "Names only."}}, BETAS
    ) == Contract(compacts_now=True, instructions="Names only.")


def test_a_parameter_without_its_beta_does_not_exist() -> None:
    clear, compact = {"type": "clear_tool_uses_20250919"}, {"type": "compact_20260112"}

    assert edited(clear, compact, betas=frozenset()) is None
    assert contract_of({"compaction": {"type": "summarize"}}, {COMPACT}) is None
    only_compact = edited(clear, compact, betas=frozenset({COMPACT}))
    assert only_compact == Contract(compacts=True, trigger=150_000)
    only_clear = edited(clear, compact, betas=frozenset({CONTEXT_MANAGEMENT}))
    assert only_clear is not None
    assert only_clear.clear_results is not None
    assert not only_clear.compacts


def test_an_edit_of_a_later_api_is_passed_over() -> None:
    assert asked({"type": "clear_everything_20280101", "trigger": "now"}) == Contract()


@pytest.mark.parametrize(
    ("edit", "param"),
    [
        ("clear", ""),
        ({"keep": uses(1)}, ""),
        ({"type": "clear_tool_uses_20250919", "trigger": 5}, ".trigger.type"),
        ({"type": "clear_tool_uses_20250919", "trigger": uses(-1)}, ".trigger.value"),
        ({"type": "clear_tool_uses_20250919", "trigger": tokens(True)}, ".trigger.value"),
        ({"type": "clear_tool_uses_20250919", "keep": tokens(3)}, ".keep.type"),
        (
            {"type": "clear_tool_uses_20250919", "clear_at_least": tokens("9")},
            ".clear_at_least.value",
        ),
        ({"type": "clear_tool_uses_20250919", "exclude_tools": "read"}, ".exclude_tools"),
        ({"type": "clear_tool_uses_20250919", "clear_tool_inputs": [1]}, ".clear_tool_inputs"),
        ({"type": "clear_thinking_20251015", "keep": "none"}, ".keep"),
        (
            {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 0}},
            ".keep.value",
        ),
        ({"type": "compact_20260112", "trigger": uses(3)}, ".trigger.type"),
        ({"type": "compact_20260112", "instructions": 3}, ".instructions"),
        ({"type": "compact_20260112", "pause_after_compaction": "yes"}, ".pause_after_compaction"),
    ],
)
def test_a_wrong_value_is_named(edit: Any, param: str) -> None:
    contract = asked(edit)

    assert contract.param == f"context_management.edits.0{param}"
    assert contract.mistake.startswith(f"{contract.param}: ")


def test_an_edit_stands_in_the_list_once() -> None:
    edit = {"type": "compact_20260112"}

    assert asked(edit, edit).param == "context_management.edits.1"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"context_management": []}, "context_management"),
        ({"context_management": {"edits": {}}}, "context_management.edits"),
        ({"compaction": "summarize"}, "compaction.type"),
        ({"compaction": {"type": "summarize"}, "context_management": {}}, "compaction"),
    ],
)
def test_parameters_that_do_not_go_together_are_named(fields: Fields, param: str) -> None:
    contract = contract_of(fields, BETAS)

    assert contract is not None
    assert contract.param == param


def block(**changes: Any) -> Fields:
    signature = signature_of("So far.", "sealed")
    whole = {"type": "compaction", "content": "So far.", "encrypted_content": "sealed"}
    return {**whole, "signature": signature, **changes}


def returned(*blocks: Fields) -> Fields:
    return {"messages": [{"role": "assistant", "content": list(blocks)}]}


def test_a_block_that_comes_back_is_part_of_the_contract_without_any_header() -> None:
    expected = Contract(sealed="sealed", has_items=True)

    assert contract_of(returned(block()), ()) == expected
    assert contract_of(returned(block(signature=None)), ()) == expected


def test_the_newest_block_counts_and_a_failed_one_does_not() -> None:
    newest = block(encrypted_content="new", signature=None)

    found = contract_of(returned(block(), newest, block(content=None)), ())
    assert found == Contract(sealed="new", has_items=True)
    failed = contract_of(returned(block(content=None)), ())
    assert failed == Contract(has_items=True)
    assert failed is not None
    assert not failed.asks_nothing


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"content": ""}, "content"),
        ({"content": 5}, "content"),
        ({"content": "Another."}, "signature"),
        ({"encrypted_content": None}, "encrypted_content"),
        ({"encrypted_content": "Another."}, "signature"),
        ({"signature": "x"}, "signature"),
        ({"signature": 5}, "signature"),
    ],
)
def test_a_block_that_was_changed_is_a_mistake(changes: Fields, field: str) -> None:
    contract = contract_of(returned(block(**changes)), ())

    assert contract is not None
    assert contract.param == f"messages.0.content.0.{field}"


@pytest.mark.parametrize("messages", [None, "hi", [], ["hi"], [{"role": "user"}]])
def test_messages_of_any_shape_have_no_block(messages: Any) -> None:
    assert contract_of({"messages": messages}, ()) is None
