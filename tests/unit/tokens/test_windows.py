import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.tokens.windows import known_input_limit, known_window


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("gpt-4o", 128_000),
        ("gpt-4o-mini-2024-07-18", 128_000),
        ("openai/gpt-4.1-mini", 1_047_576),
        ("gpt-4", 8_192),
        ("gpt-4-turbo", 128_000),
        ("gpt-3.5-turbo", 16_385),
        ("gpt-5", 400_000),
        ("gpt-5-mini-2025-08-07", 400_000),
        ("gpt-5.2-codex", 400_000),
        ("gpt-5-chat-latest", 128_000),
        ("o3", 200_000),
        ("o4-mini", 200_000),
        ("o1-mini", 128_000),
        ("openai/gpt-oss-20b", 131_072),
        ("claude-3-5-sonnet-20241022", 200_000),
        ("anthropic/claude-opus-4.1", 200_000),
        ("gemini-2.5-flash", 1_048_576),
        ("gemini-1.5-pro-002", 2_097_152),
        ("Qwen/Qwen3-8B", 32_768),
        ("Qwen/Qwen3-30B-A3B", 32_768),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", 262_144),
        ("Qwen/Qwen3-4B-Thinking-2507-FP8", 262_144),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", 262_144),
        ("Qwen/Qwen3-VL-8B-Instruct", 262_144),
        ("Qwen/Qwen3.6-27B", 262_144),
        ("Qwen/Qwen2.5-7B-Instruct", 32_768),
        ("Qwen/Qwen2.5-7B-Instruct-1M", 1_010_000),
        ("meta-llama/Llama-3.1-8B-Instruct", 131_072),
        ("meta-llama/Meta-Llama-3-8B-Instruct", 8_192),
        ("deepseek-chat", 128_000),
        ("deepseek-ai/DeepSeek-V3.1", 131_072),
        ("mistralai/Mistral-7B-Instruct-v0.3", 32_768),
        ("mistralai/Mistral-Nemo-Instruct-2407", 131_072),
        ("google/gemma-3-12b-it", 131_072),
        ("google/gemma-3-1b-it", 32_768),
        ("google/gemma-2-9b-it", 8_192),
        ("meta-llama/llama-3.3-70b-instruct:free", 131_072),
        ("claude-opus-4-6", 1_000_000),
        ("anthropic/claude-opus-4-6-20990101", 1_000_000),
        ("anthropic/claude-opus-4.6", 1_000_000),
        ("claude-opus-4-5", 200_000),
        ("gpt-5.4", 1_050_000),
        ("xai/grok-4.3-latest", 1_000_000),
    ],
)
def test_public_names_imply_their_window(model: str, window: int) -> None:
    assert known_window(model) == window


@pytest.mark.parametrize(
    "model",
    [
        "",
        "my-model",
        "qwen3",
        "qwen3:8b",
        "llama3.1:8b",
        "llama-3.1",
        "gpt-5.99",
        "gpt-6",
        "gpt-4o-audio-preview",
        "gemini-2.5-flash-image",
        "Qwen/Qwen2.5-Math-7B-Instruct",
        "gradientai/Llama-3-8B-Instruct-Gradient-1048k",
    ],
)
def test_what_a_name_does_not_imply_is_not_guessed(model: str) -> None:
    """BUGS 15: unknown is said, so that it can be asked or set. Ollama's tags tell no window."""
    assert known_window(model) is None
    assert known_input_limit(model) is None


def test_limits_of_the_prompt_alone_are_told_apart() -> None:
    assert known_input_limit("gpt-5") == 272_000
    assert known_input_limit("gpt-4o") is None


@given(st.text(max_size=80))
def test_any_name_may_be_asked_for(name: str) -> None:
    window = known_window(name)

    assert window is None or window >= 4_096
