"""The Responses API, as Codex and the Agents SDK speak it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from chat_proxy.http.headers import RawHeaders
from chat_proxy.wires.answers import Reply
from chat_proxy.wires.contracts.contract import Contract, ContractOutcome, SealedPrompt
from chat_proxy.wires.event_streams.events import AnswerEdit
from chat_proxy.wires.own_calls.edit import Round
from chat_proxy.wires.own_calls.responses import ResponsesOwnCalls, restored
from chat_proxy.wires.reading import Entry, Fields, Reading, picked
from chat_proxy.wires.responses.answers import ResponsesAnswers
from chat_proxy.wires.responses.compaction_item import CompactionItemEdit, compacted_reply
from chat_proxy.wires.responses.contract import contract_in, without_contract
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
    keeping_hosts = ("api.openai.com", "openai.azure.com", "services.ai.azure.com")

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

    def tool(self, definition: Fields) -> Fields:
        """Return a tool of the proxy in the form of this API."""
        return {"type": "function", **definition["function"], "strict": False}

    def own_calls(self, tool: str) -> ResponsesOwnCalls:
        """Return what takes the calls of a tool out of answers."""
        return ResponsesOwnCalls(tool)

    def restored(self, items: list[Fields], rounds: Sequence[Round]) -> list[Fields] | None:
        """Return a turn of the client with the calls that were taken out of it."""
        return restored(items, rounds)

    def query_fields(self, fields: Fields, query: Query) -> Fields:
        """Return the fields that decide about the prompt, and those of a query."""
        own: Fields = {"model": query.model, **picked(fields, _PROMPT_FIELDS)}
        own |= {"stream": True, "store": False, "max_output_tokens": query.max_tokens}
        if query.temperature is not None:
            own["temperature"] = query.temperature
        return own

    def contract(self, fields: Fields, headers: RawHeaders) -> Contract | None:  # noqa: ARG002 - as all wires
        """Return what a request asks the server to do about its context."""
        return contract_in(fields)

    def without_contract(self, fields: Fields, sealed: SealedPrompt | None) -> Fields:
        """Return the fields without the contract's parameters, a sealed prompt opened."""
        return without_contract(fields, sealed)

    def answer_edit(self, done: ContractOutcome, request_id: str) -> AnswerEdit | None:
        """Return what puts the compaction item in front of the output."""
        return CompactionItemEdit(done, request_id) if done.sealed else None

    def compacted_reply(self, reply: Reply, done: ContractOutcome, *, streams: bool) -> bytes:
        """Return a response whose output is the compaction item alone."""
        return compacted_reply(reply, done, streams=streams)


RESPONSES: Final = Responses()
