"""What the proxy has to know of an API: how it writes a conversation, and how it answers.

Everything else works on the same values, whatever the API. A new one is a class here and a route.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from chat_proxy.http.headers import RawHeaders
from chat_proxy.wires.answers import AnswerForm, Reply
from chat_proxy.wires.contracts.contract import Contract, ContractOutcome, SealedPrompt
from chat_proxy.wires.event_streams.events import AnswerEdit
from chat_proxy.wires.own_calls.edit import OwnCallEdit, Round
from chat_proxy.wires.reading import Entry, Fields, Items, Reading


class Written(NamedTuple):
    """A conversation as an API writes it."""

    items: Items
    changed: Fields
    """The fields of the body that change beside the list."""


class Query(NamedTuple):
    """The length and the temperature of a query of our own, and the model that is asked."""

    model: str
    max_tokens: int
    temperature: float | None


class Wire(ABC):
    """One API: the form of its requests and of its answers."""

    name: ClassVar[str]
    """Its name in metrics and logs."""
    path: ClassVar[str]
    """Its path below an upstream's base URL."""
    key: ClassVar[str] = "messages"
    """The name of its list of messages or items."""
    instructions: ClassVar[str] = ""
    """The name of the field that holds the instructions, if the list does not."""
    answers: ClassVar[AnswerForm]
    """The form of its answers."""
    query_headers: ClassVar[Sequence[tuple[bytes, bytes]]] = ()
    """What a query of our own needs beside the credentials."""
    no_tool: ClassVar[str | Fields] = "none"
    """The `tool_choice` that forbids all calls."""
    keeping_hosts: ClassVar[Sequence[str]] = ()
    """The domains whose servers keep this API's contracts themselves."""

    @abstractmethod
    def read(self, fields: Fields) -> Reading:
        """Return the conversation of a body and its options in the words of chat completions."""

    @abstractmethod
    def write(self, fields: Fields, reading: Reading, entries: Iterable[Entry]) -> Written:
        """Return a conversation in the form of this API."""

    @abstractmethod
    def lowered(self, fields: Fields, output: Mapping[str, int]) -> Fields:
        """Return the fields of a body that change if its answer gets fewer tokens.

        `output` has the names of chat completions.
        """

    @abstractmethod
    def new_item(self, message: Fields) -> Fields:
        """Return a message that the client did not send."""

    def spoken(self, messages: Sequence[Fields]) -> Written:
        """Return messages of our own, and the fields that hold a part of them."""
        return Written([self.new_item(message) for message in messages], {})

    @abstractmethod
    def tool(self, definition: Fields) -> Fields:
        """Return a tool of the proxy, which is defined in the words of chat completions."""

    @abstractmethod
    def own_calls(self, tool: str) -> OwnCallEdit:
        """Return what takes the calls of a tool of the proxy out of the answers to one request."""

    @abstractmethod
    def restored(self, items: list[Fields], rounds: Sequence[Round]) -> list[Fields] | None:
        """Return a turn of the client's list with the calls that were taken out of it.

        None if it is not the answer that the client got.
        """

    @abstractmethod
    def query_fields(self, fields: Fields, query: Query) -> Fields:
        """Return the fields of a query of our own, without its list of messages.

        `fields` are those of the client's body if the query continues it, else empty.
        """

    def contract(self, fields: Fields, headers: RawHeaders) -> Contract | None:  # noqa: ARG002 - for APIs that have contracts
        """Return what a request asks the server to do about its context; None: nothing."""
        return None

    def without_contract(self, fields: Fields, sealed: SealedPrompt | None) -> Fields:  # noqa: ARG002 - for APIs that have contracts
        """Return the fields that are sent where the proxy keeps the contract.

        Its parameters are left out, and a sealed prompt stands again for the items before it.
        """
        return fields

    def answer_edit(self, done: ContractOutcome, request_id: str) -> AnswerEdit | None:  # noqa: ARG002 - for APIs that have contracts
        """Return what reports the outcome in the upstream's answer; None if nothing is said."""
        return None

    def compacted_reply(self, reply: Reply, done: ContractOutcome, *, streams: bool) -> bytes:
        """Return the answer to a request that only asks for a compaction, or pauses behind it."""
        raise NotImplementedError
