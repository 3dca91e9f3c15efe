"""Which requests are a client's own compaction."""

from typing import Any

import pytest

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.contracts.client_compaction import client_compacting

REQUESTS = {
    "codex": "You are performing a CONTEXT CHECKPOINT COMPACTION. Write it for another model.",
    "claude-code": "CRITICAL: TEXT ONLY.\n\nYour task is to create a detailed summary of the talk.",
    "opencode": "<conversation>\nold\n</conversation>\n\nCreate a new anchored summary from the "
    "history in the <conversation> tags above.",
    "opencode, again": "<conversation>\nnew\n</conversation>\n\n<prior-summary>\nold\n"
    "</prior-summary>\n\nThe <prior-summary> summarizes everything before. Construct a new summary "
    "that combines both. The <prior-summary> is discarded after this.",
    "qwen-code": "First, think in your <analysis> block. Then, produce the <state_snapshot> XML.",
    "cline": "Summarize this session for continuation. Be short.\n\nConversation:\nold",
}


def asked(content: Any, role: str = "user") -> Conversation:
    found = Conversation.of(
        [
            {"role": "user", "content": "Read it."},
            {"role": "assistant", "content": "Done."},
            {"role": role, "content": content},
        ]
    )
    assert found is not None
    return found


@pytest.mark.parametrize(("client", "text"), REQUESTS.items())
def test_a_client_is_known_by_its_words(client: str, text: str) -> None:
    client = client.partition(",")[0]
    assert client_compacting(asked(text)) == client
    parts = [{"type": "text", "text": "Note."}, {"type": "text", "text": text}]
    if client != "cline":
        assert client_compacting(asked(parts)) == client


@pytest.mark.parametrize("text", REQUESTS.values())
def test_words_of_the_model_or_of_earlier_messages_do_not_count(text: str) -> None:
    assert not client_compacting(asked(text, "assistant"))
    conversation = asked("Go on.")
    conversation = Conversation.of([{"role": "user", "content": text}, *conversation.fields])  # type: ignore[assignment]
    assert not client_compacting(conversation)


@pytest.mark.parametrize(
    "content",
    [
        "Summarise the file for me.",
        "Please create a detailed summary of chapter two.",
        "What is a <state_snapshot>?",
        "",
        None,
        [],
        [{"type": "image_url"}],
        7,
    ],
)
def test_ordinary_messages_are_none(content: Any) -> None:
    assert not client_compacting(asked(content))


def test_an_empty_conversation_is_none() -> None:
    conversation = Conversation.of([])

    assert conversation is not None
    assert not client_compacting(conversation)


def test_the_instruction_is_found_behind_a_long_quotation() -> None:
    text = f"<conversation>\n{'words ' * 100_000}</conversation>\n\nCreate a new anchored summary "
    text += "from the history in the <conversation> tags above."

    assert client_compacting(asked(text)) == "opencode"
