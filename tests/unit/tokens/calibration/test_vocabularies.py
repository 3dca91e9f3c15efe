"""The vocabulary that a model's name implies, and what is assumed of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.tokens.calibration.covariance import is_covariance
from chat_proxy.tokens.calibration.factors import prior_of
from chat_proxy.tokens.calibration.vocabularies import COSTS, splits_digits, vocabulary_of


@pytest.mark.parametrize(
    ("name", "vocabulary"),
    [
        ("Qwen/Qwen3-8B", "qwen"),
        ("qwen2.5-coder:7b", "qwen"),
        ("QwQ-32B", "qwen"),
        ("Qwen/Qwen3.6-27B", "qwen3.5"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3"),
        ("llama3.2:3b", "llama3"),
        ("meta-llama/Llama-4-Scout-17B-16E", "llama4"),
        ("NousResearch/Meta-Llama-2-7B", "sentencepiece"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "sentencepiece"),
        ("mistralai/Mistral-Nemo-Instruct-2407", "tekken"),
        ("mistralai/Devstral-Small-2505", "tekken"),
        ("google/gemma-3-12b-it", "gemma"),
        ("deepseek-ai/DeepSeek-V3", "deepseek"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama3"),
        ("openai/gpt-oss-120b", "exact"),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "smollm"),
        ("microsoft/phi-4", "cl100k"),
        ("microsoft/Phi-3.5-mini-instruct", "sentencepiece"),
        ("01-ai/Yi-1.5-9B-Chat", "yi"),
        ("zai-org/GLM-4.6", "glm"),
        ("moonshotai/Kimi-K2-Instruct", "kimi"),
        ("my-tuned-qwen3", "qwen"),
        ("local", ""),
        ("notqwen", ""),
    ],
)
def test_a_name_implies_its_vocabulary(name: str, vocabulary: str) -> None:
    assert vocabulary_of(name) == vocabulary


@given(st.text(max_size=80))
def test_every_name_has_a_vocabulary_with_costs(name: str) -> None:
    assert vocabulary_of(name) in COSTS


@pytest.mark.parametrize("vocabulary", COSTS)
def test_every_vocabulary_has_a_prior_within_bounds(vocabulary: str) -> None:
    factors, covariance, noises = prior_of(vocabulary)

    assert factors.bounded() == factors
    assert len(noises) == len(COSTS[vocabulary])
    assert is_covariance(covariance, tuple(covariance[n][n] for n in range(len(factors))))


def test_a_vocabulary_that_nobody_knows_is_an_unknown_one() -> None:
    assert prior_of("of tomorrow") == prior_of("")
    assert not splits_digits("of tomorrow")
    assert splits_digits("qwen")
    assert not splits_digits("llama3")
