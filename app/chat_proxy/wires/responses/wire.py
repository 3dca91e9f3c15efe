"""The Responses API, as Codex and the Agents SDK speak it."""

from collections.abc import Iterable, Mapping
from typing import Final

from chat_proxy.wires.reading import Entry, Fields, Reading, picked
from chat_proxy.wires.responses.answers import ResponsesAnswers
from chat_proxy.wires.responses.read import read
from chat_proxy.wires.responses.write import new_item, write
from chat_proxy.wires.wire import Query, Wire, Written

_PROMPT_FIELDS: Final = (
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "prompt_cache_key",
    "safety_identifier",
    "user",
)
"""The fields from which a server renders the prompt; without them it would be another prompt."""


class Responses(Wire):
    """The form of the Responses API."""

    name = "responses"
    path = "/responses"
    key = "input"
    instructions = "instructions"
    answers = ResponsesAnswers()

    def read(self, fields: Fields) -> Reading:
        """Return the conversation of a request."""
        return read(fields)

    def write(self, fields: Fields, reading: Reading, entries: Iterable[Entry]) -> Written:
        """Return a conversation as items."""
        given = fields.get("input")
        items, changed = write(given, reading.sources, entries)
        if type(given) is not str:
            return Written(items, changed)
        is_same = items == [new_item({"role": "user", "content": given})]
        return Written([], {**changed, "input": given if is_same else items})

    def lowered(self, fields: Fields, output: Mapping[str, int]) -> Fields:  # noqa: ARG002 - as all wires
        """Return the maximum of the answer under this API's name."""
        return {"max_output_tokens": min(output.values())}

    def new_item(self, message: Fields) -> Fields:
        """Return a message of our own as an item."""
        return new_item(message)

    def query_fields(self, fields: Fields, query: Query) -> Fields:
        """Return the fields that decide about the prompt, and those of a query."""
        own: Fields = {"model": query.model, **picked(fields, _PROMPT_FIELDS)}
        own |= {"stream": True, "store": False, "max_output_tokens": query.max_tokens}
        if query.temperature is not None:
            own["temperature"] = query.temperature
        return own


RESPONSES: Final = Responses()
