"""How the scripted model reads the requests of Responses and Messages."""

import json
from functools import cached_property
from typing import Any

from chat_proxy.wires.recognise import wire_of_path
from tests.support.summary_model import IMAGE_TOKENS, Question, tokenizer
from tools.compat.wires.rules import complaints_about

Fields = dict[str, Any]
PROMPT = ("messages", "input", "system", "instructions")
IMAGES = ("image", "input_image", "image_url")


class WireQuestion(Question):
    """A request of another API than chat completions, as the model sees it."""

    @cached_property
    def own_fields(self) -> Fields:
        """The body as it came."""
        return dict(json.loads(self.received.body))

    @cached_property
    def fields(self) -> Fields:
        """The body, and its conversation in the words of chat completions."""
        wire = wire_of_path(self.received.target.partition("?")[0])
        messages = wire.read(self.own_fields).messages
        return {**self.own_fields, "messages": messages or []}

    @cached_property
    def tokens(self) -> int:
        """The prompt's length, counted from the body itself."""
        own = self.own_fields
        said = tokens_in([own[name] for name in PROMPT if name in own])
        # A template shows the model its tools as JSON.
        tools = tokenizer().count(json.dumps(own.get("tools") or ""))
        return int((said + tools) * self.factor)

    @property
    def output(self) -> int:
        """The longest answer that it asks for, which must fit beside the prompt."""
        own = self.own_fields
        return int(own.get("max_tokens") or own.get("max_output_tokens") or 0)

    @property
    def complaints(self) -> list[str]:
        """What the API would refuse."""
        return complaints_about(self.own_fields)


def tokens_in(value: object) -> int:
    """Return the tokens of a part of a body: its texts, its images, its keys."""
    if isinstance(value, dict):
        if value.get("type") in IMAGES:
            return IMAGE_TOKENS
        return 2 + sum(map(tokens_in, value.values()))
    if isinstance(value, list):
        return sum(map(tokens_in, value))
    return tokenizer().count(value) if isinstance(value, str) else 1


def images_in(value: object) -> int:
    """Return how many images a part of a body has."""
    if isinstance(value, dict):
        own = value.get("type") in IMAGES
        return own + sum(map(images_in, value.values()))
    return sum(map(images_in, value)) if isinstance(value, list) else 0
