"""What tokens of o200k cost in other vocabularies."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.tokens.calibration import token_costs
from chat_proxy.tokens.calibration.token_costs import (
    ENCODING,
    VOCABULARIES,
    CostsUnusable,
    load_costs,
    packed,
    unpacked,
)
from chat_proxy.tokens.calibration.vocabularies import COSTS
from chat_proxy.tokens.overheads import CountingRules, refined, rules_for
from chat_proxy.tokens.tiktoken_counter import TiktokenCounter, load_encoding

FIRST_STATE = 2**18
STEPS = [(5, 6, -1), (8, 9, 2), (FIRST_STATE, 7, -2)]
"""Tokens 5 and 6 cost one less together, with 7 behind them two less; 8 and 9 two more."""
EACH = bytes(1 + n % 3 for n in range(100))


def counter_in(vocabulary: str) -> TiktokenCounter:
    counter = TiktokenCounter(ENCODING, costs=vocabulary)
    assert counter.load()
    return counter


def alone(tokens: list[int]) -> int:
    return sum(EACH[token] for token in tokens)


@pytest.mark.parametrize(
    ("tokens", "correction"),
    [
        ([], 0),
        ([5], 0),
        ([6], 0),
        ([5, 6], -1),
        ([5, 6, 7], -3),
        ([5, 7], 0),
        ([6, 7], 0),
        ([1, 5, 6, 7, 5, 6, 2, 8, 9], -2),
        ([5, 5, 6], -1),
        ([5, 6, 6], -1),
    ],
)
def test_a_sequence_costs_what_was_measured_for_it(tokens: list[int], correction: int) -> None:
    costs = unpacked(packed(EACH, STEPS))

    assert costs.total(tokens) == alone(tokens) + correction


@given(st.lists(st.integers(0, 99), max_size=60))
def test_tokens_without_sequences_cost_their_sum(tokens: list[int]) -> None:
    assert unpacked(packed(EACH, [])).total(tokens) == alone(tokens)


@pytest.mark.parametrize("content", [b"", b"\1" * 100, packed(EACH, STEPS)[:-1]])
def test_other_content_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="not the costs"):
        unpacked(content)


@pytest.mark.parametrize("content", [None, b"", b"no archive"])
def test_costs_that_cannot_be_read_leave_a_guess(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_costs, "_FOLDER", tmp_path)
    if content is not None:
        (tmp_path / "missing.xz").write_bytes(content)
    counter = TiktokenCounter(ENCODING, costs="missing")

    assert not counter.load()
    assert counter.failure == "the costs of missing cannot be read"
    assert counter.count("Hello there") > 0
    with pytest.raises(CostsUnusable):
        load_costs("missing")


@pytest.mark.parametrize("vocabulary", sorted(VOCABULARIES))
def test_every_measured_vocabulary_is_one_that_names_imply(vocabulary: str) -> None:
    costs = load_costs(vocabulary)
    encoding = load_encoding(ENCODING)

    assert vocabulary in COSTS
    assert costs.steps
    common = encoding.encode_ordinary(" the of and to in is that it was for on are with as")
    assert costs.total(common) == len(common)


@pytest.mark.parametrize(
    ("vocabulary", "text", "tokens"),
    [
        # Counted by each family's own tokenizer.
        ("qwen", "Call 0049 30 123456 at 17:45.", 24),
        ("llama3", "Call 0049 30 123456 at 17:45.", 15),
        ("qwen", "नमस्ते, आप कैसे हैं?", 20),
        ("smollm", "नमस्ते, आप कैसे हैं?", 22),
    ],
)
def test_a_short_text_costs_what_its_own_tokenizer_says(
    vocabulary: str, text: str, tokens: int
) -> None:
    assert counter_in(vocabulary).count(text) == tokens


def test_scripts_are_counted_in_the_vocabulary_too() -> None:
    hindi = "यह एक छोटा सा वाक्य है जो हिन्दी में लिखा गया है।"
    plain = TiktokenCounter(ENCODING)
    plain.load()

    assert counter_in("smollm").count(hindi) > 2.5 * plain.count(hindi)


@pytest.mark.parametrize(
    ("name", "costs", "prior"),
    [
        ("Qwen/Qwen3-8B", "qwen", "measured"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3", "measured"),
        ("01-ai/Yi-1.5-9B-Chat", "", "yi"),
        ("openai/gpt-oss-20b", "", "exact"),
        ("local", "", ""),
    ],
)
def test_a_name_implies_measured_costs(name: str, costs: str, prior: str) -> None:
    rules = rules_for(name, "vllm")

    assert (rules.costs, rules.prior) == (costs, prior)


def test_a_vocabulary_that_is_an_encoding_is_counted_with_it() -> None:
    rules = rules_for("microsoft/phi-4", "vllm")

    assert (rules.encoding, rules.costs, rules.prior) == ("cl100k_base", "", "exact")


def test_an_operators_encoding_is_used_without_costs() -> None:
    rules = rules_for("Qwen/Qwen3-8B", "vllm", encoding="o200k_base")

    assert not rules.costs
    assert not refined(CountingRules(), ("Qwen/Qwen3-8B",), keeps_digits=True).costs
    assert not rules_for("Qwen/Qwen3-8B", "vllm", default_encoding="cl100k_base").costs


def test_the_names_of_bases_imply_costs_and_template() -> None:
    found = refined(CountingRules(), ("/models/Mistral-Small-24B-Instruct-2501",))

    assert (found.costs, found.message_tokens, found.tools_style) == ("tekken", 2, "bare")
    assert refined(CountingRules(), ("Qwen/Qwen2.5-7B-Instruct",)).unled_tokens == 21
