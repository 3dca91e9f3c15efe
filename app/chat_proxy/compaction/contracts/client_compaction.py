"""Recognise the request by which a client compacts its conversation itself."""

import re
from typing import Final

from chat_proxy.chat.conversation import Conversation

HEAD_CHARS: Final = 4_096
TAIL_CHARS: Final = 16_384
"""A request may quote the whole conversation between its beginning and its instruction."""

_WORDS: Final = (
    ("codex", r"You are performing a CONTEXT CHECKPOINT COMPACTION"),
    ("claude-code", r"Your task is to create a detailed summary of (?:the|this)\b"),
    ("opencode", r"\banchored summary\b.{0,200}<(?:conversation|prior-summary)>"),
    ("opencode", r"Construct a new summary that combines both\. The <prior-summary>"),
    ("opencode", r"Provide a detailed prompt for continuing our conversation above"),
    ("qwen-code", r"\b(?:produce|generate) the <state_snapshot>"),
    ("cline", r"^\s*Summarize this session for continuation\b"),
    ("cline", r'<explicit_instructions type="(?:summarize_task|condense)">'),
)
_CLIENTS: Final = tuple((name, re.compile(words, re.DOTALL)) for name, words in _WORDS)


def client_compacting(conversation: Conversation) -> str:
    """Return the client whose own compaction request this is; empty if it is none.

    Only the last message counts, and only if it is the user's: in older ones the words are history.
    """
    if not len(conversation) or conversation.rest[-1].get("role") != "user":
        return ""
    text = _text_of(conversation.rest[-1].get("content"))
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    return next((name for name, words in _CLIENTS if words.search(text)), "")


def _text_of(content: object) -> str:
    if type(content) is str:
        return content
    if type(content) is not list:
        return ""
    texts = (part.get("text") for part in content if type(part) is dict)
    return "\n".join(text for text in texts if type(text) is str)
