import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chat_proxy.demo.model.messages import Message
from chat_proxy.demo.model.refusals import bad_request

TOKEN = re.compile(r"\s?\w{1,4}|\s?[^\w\s]|\s{1,64}")
LONGEST_TOKEN_CHARACTERS = 64
MESSAGE_TOKENS = 4
REPLY_TOKENS = 3
IMAGE_TOKENS = 576
OTHER_PART_TOKENS = 64


@dataclass(frozen=True)
class PromptSize:
    """How many tokens a prompt has in text and in media."""

    text: int
    media: int

    @property
    def total(self) -> int:
        """Return what the prompt takes of the window."""
        return self.text + self.media


def split(text: str) -> list[str]:
    """Cut a text into this model's tokens; joined again they are the text."""
    return TOKEN.findall(text)


def count(text: str) -> int:
    """Return how many tokens a text has."""
    return len(split(text))


def measure(messages: Iterable[Message], tools: Iterable[str], window: int) -> PromptSize:
    """Count a prompt, or refuse it by its characters when counting would be a waste."""
    messages = tuple(messages)
    texts = [*(text for message in messages for text in texts_in(message)), *tools]
    refuse_too_many_characters(sum(map(len, texts)), window)
    overhead = REPLY_TOKENS + MESSAGE_TOKENS * len(messages)
    return PromptSize(overhead + sum(map(count, texts)), sum(map(media_tokens, messages)))


def texts_in(message: Message) -> Iterator[str]:
    """Yield all of a message that is written out in the prompt."""
    yield message.text
    yield message.thoughts
    for call in message.calls:
        yield call.name
        yield call.arguments


def media_tokens(message: Message) -> int:
    """Return what a message's media cost: a flat price, whatever their bytes."""
    return IMAGE_TOKENS * len(message.images) + OTHER_PART_TOKENS * len(message.other_parts)


def room_for_answer(size: PromptSize, window: int, asked: int | None) -> int:
    """Return how many tokens the answer may have, or refuse the prompt as vLLM 0.32 does."""
    refuse_too_many_tokens(size, window)
    room = window - size.total
    allowed = room if asked is None else min(asked, room)
    if allowed < 1:
        complaint = f"max_tokens must be at least 1, got {allowed}."
        raise bad_request(complaint, "max_tokens", allowed)
    return allowed


def refuse_too_many_characters(characters: int, window: int) -> None:
    """Refuse a prompt that no way of cutting it into tokens could make fit."""
    bound = window * LONGEST_TOKEN_CHARACTERS
    if characters > bound:
        complaint = (
            f"This model's maximum context length is {window} tokens. However, your prompt "
            f"contains {characters} characters (more than {bound} characters, which is the upper "
            f"bound for {window} input tokens). Please reduce the length of the input prompt."
        )
        raise bad_request(complaint, "input_text", characters)


def refuse_too_many_tokens(size: PromptSize, window: int) -> None:
    """Refuse text, then text with media, that is longer than the window."""
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
