import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.tokens.overheads import UpstreamKind, in_vocabulary, refined, rules_for
from chat_proxy.tokens.tiktoken_counter import ENCODINGS


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o", "o200k_base"),
        ("gpt-4.1-mini", "o200k_base"),
        ("chatgpt-4o-latest", "o200k_base"),
        ("gpt-5.2-codex", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("openai/gpt-oss-20b", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo-2024-04-09", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("gpt-35-turbo-16k", "cl100k_base"),
        ("ft:gpt-4o-mini:acme::abc", "o200k_base"),
        ("openai/gpt-4o:online", "o200k_base"),
    ],
)
def test_openais_names_tell_their_encoding(model: str, encoding: str) -> None:
    assert rules_for(model, default_encoding="cl100k_base").encoding == encoding


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "olmo-2", "o200", "gpt-neox", "", "my-gpt-4o"])
def test_other_names_have_the_default_encoding(model: str) -> None:
    assert rules_for(model, default_encoding="cl100k_base").encoding == "cl100k_base"
    assert rules_for(model).encoding == "o200k_base"


def test_the_registrys_words_come_first() -> None:
    rules = rules_for("gpt-4o", encoding="cl100k_base", image_family="qwen2-vl:1003520")

    assert rules.encoding == "cl100k_base"
    assert rules.image_family == "qwen2-vl:1003520"


@pytest.mark.parametrize(
    "model",
    [
        "Qwen/Qwen2-7B-Instruct",
        "Qwen/Qwen2.5-VL-7B-Instruct",
        "qwen2.5-coder:7b",
        "qwen3:8b",
        "Qwen3.5-35B-A3B",
        "qwen-plus",
        "Qwen/QwQ-32B",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
        "mistralai/Mistral-7B-Instruct-v0.3",
        "mistralai/Mixtral-8x7B-Instruct-v0.1",
        "open-mistral-nemo",
        "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
        "mistral-large-2411",
        "mistralai/Ministral-8B-Instruct-2410",
        "mistralai/Devstral-Small-2507",
        "codestral-2501",
        "magistral-small:24b",
        "pixtral-12b",
        "OpenHermes-2.5-Mistral-7B",
    ],
)
def test_qwens_and_mistrals_names_tell_that_digits_are_single(model: str) -> None:
    assert rules_for(model).single_digits
    assert rules_for(model, "vllm", default_encoding="cl100k_base").single_digits


@pytest.mark.parametrize(
    "model",
    [
        "gpt-4o",
        "gpt-4",
        "openai/gpt-oss-20b",
        "meta-llama/Llama-3.1-8B-Instruct",
        "mistralai/llama-3-8b",
        "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
        "deepseek-ai/DeepSeek-V3",
        "glm-4.6",
        "fake",
        "",
    ],
)
def test_other_names_tell_nothing_of_digits(model: str) -> None:
    assert not rules_for(model).single_digits


def test_an_encoding_of_the_registry_is_taken_as_it_is() -> None:
    assert not rules_for("Qwen/Qwen3-8B", encoding="o200k_base").single_digits
    assert rules_for("Qwen/Qwen3-8B", encoding="p50k").single_digits


def test_unknown_words_of_the_registry_are_left_aside() -> None:
    rules = rules_for("gpt-4o", encoding="p50k", image_family="gpt-9o", image_tokens=99)

    assert (rules.encoding, rules.image_family, rules.image_tokens) == ("o200k_base", "gpt-4o", 99)


@pytest.mark.parametrize(
    ("model", "kind", "style", "frame", "vocabulary"),
    [
        ("gpt-4o", "unknown", "typescript", 4, "exact"),
        ("gpt-4o", "openai", "typescript", 4, "exact"),
        ("some-new-model", "openai", "typescript", 4, "exact"),
        ("gpt-4o", "vllm", "json", 5, ""),
        ("gpt-oss-120b", "vllm", "typescript", 4, "exact"),
        ("Qwen/Qwen3-8B", "vllm", "json", 5, "qwen"),
        ("Qwen/Qwen3-8B", "unknown", "json", 5, "qwen"),
    ],
)
def test_openai_and_open_weight_models_are_framed_differently(
    model: str, kind: UpstreamKind, style: str, frame: int, vocabulary: str
) -> None:
    rules = rules_for(model, kind)

    assert (rules.tools_style, rules.message_tokens, rules.vocabulary) == (style, frame, vocabulary)
    assert rules.reply_tokens == 3
    assert rules.renders_schema == (style == "typescript")


@pytest.mark.parametrize(
    "base",
    [
        "Qwen/Qwen2-VL-7B-Instruct",
        "/models/Qwen2-VL-7B-Instruct/",
        "/root/.cache/huggingface/hub/models--Qwen--Qwen2-VL-7B-Instruct/snapshots/0123abc",
    ],
)
def test_a_name_that_tells_nothing_is_read_from_the_models_base(base: str) -> None:
    rules = refined(rules_for("local", "vllm"), ("adapter", base))

    assert rules.image_family == "qwen2-vl"
    assert rules.vocabulary == "qwen"
    assert rules.single_digits


def test_an_encoding_of_the_registry_keeps_its_numbers() -> None:
    rules = rules_for("local", "vllm", encoding="cl100k_base")

    assert not refined(rules, ("Qwen/Qwen3-8B",), keeps_digits=True).single_digits


def test_the_models_own_name_counts_more_than_its_base() -> None:
    rules = refined(rules_for("my-llama-3-merge", "vllm"), ("Qwen/Qwen3-8B",))

    assert rules.vocabulary == "llama3"


@given(st.text(max_size=80))
def test_every_name_has_rules(name: str) -> None:
    assert rules_for(name).encoding in ENCODINGS


@pytest.mark.parametrize(
    ("vocabulary", "shown"),
    [
        ("tekken", ("o200k_base", "tekken", "tekken", True)),
        ("exact", ("o200k_base", "exact", "", False)),
        ("cl100k", ("cl100k_base", "exact", "", False)),
    ],
)
def test_a_vocabulary_that_the_engine_shows_has_priority_over_the_name(
    vocabulary: str, shown: tuple[str, str, str, bool]
) -> None:
    named = rules_for("Qwen/Qwen3-8B", "vllm")

    rules = in_vocabulary(named, vocabulary)

    assert (rules.encoding, rules.vocabulary, rules.costs, rules.single_digits) == shown
    assert (rules.message_tokens, rules.tools_style) == (named.message_tokens, named.tools_style)
    assert in_vocabulary(named, None) is named


def test_an_encoding_that_the_operator_chose_stays() -> None:
    for chosen in (
        rules_for("my-model", "vllm", encoding="cl100k_base"),
        rules_for("my-model", "vllm", default_encoding="cl100k_base"),
    ):
        assert in_vocabulary(chosen, "tekken") is chosen
