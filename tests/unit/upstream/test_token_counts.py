"""The bodies by which engines are asked for a count."""

from typing import Any

import pytest

from chat_proxy.upstream.token_counts import chat_body, messages_body, tokenize_body

USER = {"role": "user", "content": "hi"}


def test_tokenize_gets_what_the_template_renders() -> None:
    request = {"model": "m", "messages": [USER], "tools": [], "temperature": 1, "stream": True}

    assert tokenize_body(request) == {"model": "m", "messages": [USER], "tools": []}
    assert chat_body(request) == {**request, "stream": False}


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
