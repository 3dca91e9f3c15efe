"""The bodies by which engines are asked for a count."""

from typing import Any

import pytest

from chat_proxy.upstream.token_counts import chat_body, messages_body, tokenize_body

USER = {"role": "user", "content": "hi"}


def test_tokenize_gets_what_the_template_renders() -> None:
    request = {"model": "m", "messages": [USER], "tools": [], "temperature": 1, "stream": True}

    assert tokenize_body(request) == {"model": "m", "messages": [USER], "tools": []}
    assert chat_body(request) == {**request, "stream": False}


def test_texts_of_responses_are_asked_about_in_the_words_of_chat() -> None:
    """llama.cpp answers `unsupported content[].type` to others."""
    said = {"role": "assistant", "content": [{"type": "output_text", "text": "so"}, {"odd": 1}]}
    asked = {"role": "user", "content": [{"type": "input_text", "text": "hi", "annotations": []}]}
    request = {"messages": [asked, said, USER]}

    for body in (tokenize_body(request), chat_body(request)):
        assert body is not None
        assert body["messages"] == [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "so"}, {"odd": 1}]},
            USER,
        ]


@pytest.mark.parametrize(
    "request_fields",
    [
        {"messages": []},
        {"messages": [{"role": "system", "content": "only"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
        {"messages": [{"role": "user", "content": "hi", "name": "anne"}]},
        {"messages": [USER, {"role": "system", "content": "late"}]},
        {"messages": [USER, {"role": "tool", "content": "x"}]},
        {"messages": [USER], "tools": [{"type": "function"}]},
    ],
)
def test_only_plain_texts_have_an_anthropic_form(request_fields: dict[str, Any]) -> None:
    assert messages_body(request_fields) is None


def test_leading_instructions_are_the_system_of_the_anthropic_form() -> None:
    leading = [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}]

    assert messages_body({"model": "m", "messages": [*leading, USER]}) == {
        "model": "m",
        "system": "a\n\nb",
        "messages": [USER],
    }
