"""The Messages API, as Claude Code and Anthropic's SDKs speak it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from chat_proxy.wires.messages.answers import MessagesAnswers
from chat_proxy.wires.messages.read import read
from chat_proxy.wires.messages.write import new_message, write
from chat_proxy.wires.reading import Entry, Fields, Items, Reading, picked
from chat_proxy.wires.wire import Query, Wire, Written

_PROMPT_FIELDS: Final = ("system", "tools", "tool_choice", "metadata", "chat_template_kwargs")
"""The fields from which a server renders the prompt; without them it would be another prompt."""
_LEAST_THINKING: Final = 1_024
"""The smallest budget for thinking that the API accepts."""


class Messages(Wire):
    """The form of the Messages API."""

    name = "messages"
    path = "/messages"
    instructions = "system"
    answers = MessagesAnswers()
    query_headers = ((b"anthropic-version", b"2023-06-01"),)

    def read(self, fields: Fields) -> Reading:
        """Return the conversation of a request."""
        return read(fields)

    def write(self, fields: Fields, reading: Reading, entries: Iterable[Entry]) -> Written:
        """Return a conversation as messages."""
        return Written(*write(fields["messages"], reading.sources, entries))

    def lowered(self, fields: Fields, output: Mapping[str, int]) -> Fields:
        """Return the maximum of the answer, with a budget for thinking below it."""
        most = min(output.values())
        thinking = fields.get("thinking")
        budget = thinking.get("budget_tokens") if type(thinking) is dict else None
        if type(thinking) is not dict or type(budget) is not int or budget < most:
            return {"max_tokens": most}
        if most <= _LEAST_THINKING:
            return {"max_tokens": most, "thinking": {"type": "disabled"}}
        fitting = max(_LEAST_THINKING, most // 2)
        return {"max_tokens": most, "thinking": {**thinking, "budget_tokens": fitting}}

    def new_item(self, message: Fields) -> Fields:
        """Return a message of our own."""
        return new_message(message)

    def spoken(self, messages: Sequence[Fields]) -> Written:
        """Return messages of our own; the instructions have a field of their own."""
        instructions = [it["content"] for it in messages if it["role"] == "system"]
        items: Items = [new_message(it) for it in messages if it["role"] != "system"]
        return Written(items, {"system": "\n\n".join(instructions)} if instructions else {})

    def query_fields(self, fields: Fields, query: Query) -> Fields:
        """Return the fields that decide about the prompt, and those of a query."""
        own: Fields = {"model": query.model, **picked(fields, _PROMPT_FIELDS)}
        own |= {"stream": True, "max_tokens": query.max_tokens}
        if query.temperature is not None:
            own["temperature"] = query.temperature
        return own


MESSAGES: Final = Messages()
