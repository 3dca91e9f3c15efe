"""The Messages API, as Claude Code and Anthropic's SDKs speak it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.http.headers import RawHeaders
from chat_proxy.wires.answers import Reply, named_event
from chat_proxy.wires.contracts.contract import Contract, ContractOutcome, SealedPrompt
from chat_proxy.wires.event_streams.events import AnswerEdit
from chat_proxy.wires.messages.answers import MessagesAnswers
from chat_proxy.wires.messages.compaction_blocks import has_blocks, unfolded
from chat_proxy.wires.messages.contract_answers import (
    ContractEdit,
    paused_events,
    paused_message,
)
from chat_proxy.wires.messages.edits import PARAMETERS, betas_in, contract_of
from chat_proxy.wires.messages.read import read
from chat_proxy.wires.messages.write import new_message, write
from chat_proxy.wires.own_calls.edit import Round
from chat_proxy.wires.own_calls.messages import MessagesOwnCalls, restored
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
    no_tool: ClassVar[Fields] = {"type": "none"}
    query_headers = ((b"anthropic-version", b"2023-06-01"),)
    keeping_hosts = ("api.anthropic.com",)

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

    def tool(self, definition: Fields) -> Fields:
        """Return a tool of the proxy in the form of this API."""
        function = definition["function"]
        named = picked(function, ("name", "description"))
        return {**named, "input_schema": function["parameters"]}

    def own_calls(self, tool: str) -> MessagesOwnCalls:
        """Return what takes the calls of a tool out of answers."""
        return MessagesOwnCalls(tool)

    def restored(self, items: list[Fields], rounds: Sequence[Round]) -> list[Fields] | None:
        """Return a turn of the client with the calls that were taken out of it."""
        return restored(items, rounds)

    def query_fields(self, fields: Fields, query: Query) -> Fields:
        """Return the fields that decide about the prompt, and those of a query."""
        own: Fields = {"model": query.model, **picked(fields, _PROMPT_FIELDS)}
        own |= {"stream": True, "max_tokens": query.max_tokens}
        if query.temperature is not None:
            own["temperature"] = query.temperature
        return own

    def contract(self, fields: Fields, headers: RawHeaders) -> Contract | None:
        """Return what a request asks for by its parameters, and the block that it sends back."""
        return contract_of(fields, betas_in(headers))

    def without_contract(self, fields: Fields, sealed: SealedPrompt | None) -> Fields:
        """Return the fields without the contract's parameters, a sealed prompt opened."""
        others = {name: value for name, value in fields.items() if name not in PARAMETERS}
        if not has_blocks(fields.get("messages")):
            return others
        return {**others, "messages": unfolded(fields["messages"], sealed)}

    def answer_edit(self, done: ContractOutcome, request_id: str) -> AnswerEdit | None:  # noqa: ARG002 - as all wires
        """Return what adds the compaction, the edits and the usage by iteration to a message."""
        return ContractEdit(done) if done.is_asked else None

    def compacted_reply(self, reply: Reply, done: ContractOutcome, *, streams: bool) -> bytes:
        """Return a message that is a compaction alone."""
        message = paused_message(done, reply.model, reply.request_id)
        if not streams:
            return serialise(message)
        return b"".join(map(named_event, paused_events(message)))


MESSAGES: Final = Messages()
