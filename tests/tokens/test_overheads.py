import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tokens.overheads import UpstreamKind, rules_for
from app.tokens.tiktoken_counter import ENCODINGS


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


def test_unknown_words_of_the_registry_are_left_aside() -> None:
    rules = rules_for("gpt-4o", encoding="p50k", image_family="gpt-9o", image_tokens=99)

    assert (rules.encoding, rules.image_family, rules.image_tokens) == ("o200k_base", "gpt-4o", 99)


@pytest.mark.parametrize(
    ("model", "kind", "style", "frame", "factor"),
    [
        ("gpt-4o", "unknown", "typescript", 4, 1.0),
        ("gpt-4o", "openai", "typescript", 4, 1.0),
        ("some-new-model", "openai", "typescript", 4, 1.0),
        ("gpt-4o", "vllm", "json", 5, 1.1),
        ("gpt-oss-120b", "vllm", "typescript", 4, 1.0),
        ("Qwen/Qwen3-8B", "vllm", "json", 5, 1.1),
        ("Qwen/Qwen3-8B", "unknown", "json", 5, 1.1),
    ],
)
def test_openai_and_open_weight_models_are_framed_differently(
    model: str, kind: UpstreamKind, style: str, frame: int, factor: float
) -> None:
    rules = rules_for(model, kind)

    assert (rules.tools_style, rules.message_tokens, rules.text_factor) == (style, frame, factor)
    assert rules.reply_tokens == 3
    assert rules.renders_schema == (style == "typescript")


@given(st.text(max_size=80))
def test_every_name_has_rules(name: str) -> None:
    assert rules_for(name).encoding in ENCODINGS
