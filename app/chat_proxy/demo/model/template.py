"""Counting the tokens of a prompt, and refusing prompts that do not fit."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chat_proxy.demo.model.messages import Message
from chat_proxy.demo.model.refusals import bad_request

TOKEN = re.compile(r"\s?\w{1,4}|\s?[^\w\s]|\s{1,64}")
LONGEST_TOKEN_CHARACTERS = 64
MESSAGE_TOKENS = 4
REPLY_TOKENS = 3
TOOLS_TOKENS = 110
"""The words that a chat template puts around tools, as those of common models do."""
IMAGE_TOKENS = 576
OTHER_PART_TOKENS = 64


@dataclass(frozen=True)
class PromptSize:
    """The tokens of a prompt, in text and in media."""

    text: int
    media: int

    @property
    def total(self) -> int:
        """The tokens of the whole prompt."""
        return self.text + self.media


def split(text: str) -> list[str]:
    """Split a text into this model's tokens; joined, they are the text again."""
    return TOKEN.findall(text)


def count(text: str) -> int:
    """Return the number of tokens in a text."""
    return len(split(text))


def measure(messages: Iterable[Message], tools: Iterable[str], window: int) -> PromptSize:
    """Count the tokens of a prompt, or raise DemoError if its characters alone are too many."""
    messages = tuple(messages)
    described = tuple(tools)
    texts = [*(text for message in messages for text in texts_in(message)), *described]
    refuse_too_many_characters(sum(map(len, texts)), window)
    overhead = REPLY_TOKENS + MESSAGE_TOKENS * len(messages)
    overhead += TOOLS_TOKENS if described else 0
    return PromptSize(overhead + sum(map(count, texts)), sum(map(media_tokens, messages)))


def texts_in(message: Message) -> Iterator[str]:
    """Yield all texts of a message that are part of the prompt."""
    yield message.text
    yield message.thoughts
    for call in message.calls:
        yield call.name
        yield call.arguments


def media_tokens(message: Message) -> int:
    """Return the tokens of a message's media: a fixed number each, whatever their size."""
    return IMAGE_TOKENS * len(message.images) + OTHER_PART_TOKENS * len(message.other_parts)


def room_for_answer(size: PromptSize, window: int, asked: int | None) -> int:
    """Return the token limit of the answer, or raise DemoError as vLLM 0.32 refuses a prompt."""
    refuse_too_many_tokens(size, window)
    free = window - size.total
    allowed = free if asked is None else min(asked, free)
    if allowed < 1:
        complaint = f"max_tokens must be at least 1, got {allowed}."
        raise bad_request(complaint, "max_tokens", allowed)
    return allowed


def refuse_too_many_characters(characters: int, window: int) -> None:
    """Raise DemoError for a prompt with too many characters to fit in any tokenization."""
    bound = window * LONGEST_TOKEN_CHARACTERS
    if characters > bound:
        complaint = (
            f"This model's maximum context length is {window} tokens. However, your prompt "
            f"contains {characters} characters (more than {bound} characters, which is the upper "
            f"bound for {window} input tokens). Please reduce the length of the input prompt."
        )
        raise bad_request(complaint, "input_text", characters)


def refuse_too_many_tokens(size: PromptSize, window: int) -> None:
    """Raise DemoError if the text, or the text with media, exceeds the window."""
    if size.text > window:
        complaint = (
            f"This model's maximum context length is {window} tokens. However, your prompt "
            f"contains at least {window + 1} input tokens, which exceeds this limit even without "
            "any output tokens. Please reduce the length of the input prompt."
        )
        raise bad_request(complaint, "input_tokens", window + 1)
    if size.total > window:
        complaint = (
            f"Input length ({size.total}) exceeds model's maximum context length ({window})."
        )
        raise bad_request(complaint)
