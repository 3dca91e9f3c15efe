"""What a summary is written from, and what is expected of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.details_blocks import embedded_results, with_embedded_results
from chat_proxy.chat.message import Message
from chat_proxy.compaction.summary.validation.sections import Sections


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """The texts that a summary is compared with, and the sections that it must have."""

    span_text: str
    """All texts to summarise, with an earlier summary that is part of the prompt."""
    dialogue: str
    """What the user and the assistant wrote in the span, without tool calls and results."""
    user_text: str
    """What the user wrote in all messages of the prompt."""
    replaced_tokens: int
    sections: Sections
    needs_sections: bool = True
    """Whether an answer with hardly any section is refused; else it is taken as plain text."""
    previous: str = ""
    """The earlier summary that this one updates."""
    instructions: str = ""
    """The system texts, which a summary may quote."""
    has_wish: bool = False
    """Whether the user gave an instruction: it may ask for another length, language or subject."""


def summary_task(
    given: Conversation,
    span: Sequence[Message],
    previous: str,
    replaced_tokens: int,
    sections: Sections,
) -> SummaryTask:
    """Return the task to summarise a span; `given` is the prompt up to the span's end."""
    others = [message for message in given.messages if not message.is_instruction]
    return SummaryTask(
        span_text=_texts(others),
        dialogue=_own_words(m for m in span if m.is_user or m.is_assistant),
        user_text=_own_words(m for m in others if m.is_user),
        replaced_tokens=replaced_tokens,
        sections=sections,
        previous=previous,
        instructions=_texts(m for m in given.messages if m.is_instruction),
    )


def is_talk(span: Iterable[Message]) -> bool:
    """Return whether a span has neither tool calls nor tool results."""
    return not any(_uses_tools(message) for message in span)


def _uses_tools(message: Message) -> bool:
    return _without_results(message) is not message or any(
        kind in ("tool_call", "tool_result")
        or (message.is_assistant and kind == "text" and bool(embedded_results(text)))
        for kind, text in message.pieces()
    )


def _texts(messages: Iterable[Message]) -> str:
    return "\n".join(text for message in messages for _, text in message.pieces())


def _own_words(messages: Iterable[Message]) -> str:
    """Return what the authors of messages wrote themselves, without tool results."""
    return "\n".join(
        with_embedded_results(text, dict.fromkeys(range(len(embedded_results(text))), ""))
        for message in messages
        for kind, text in _without_results(message).pieces()
        if kind == "text"
    )


def _without_results(message: Message) -> Message:
    """Return a message without the parts that are tool results; the same object if it has none."""
    content = message.content
    if type(content) is not list:
        return message
    kept = [part for part in content if not _is_result(part)]
    return message if len(kept) == len(content) else message.with_content(kept)


def _is_result(part: Any) -> bool:
    return type(part) is dict and part.get("type") == "tool_result"
