"""Calls of the proxy's own tool in an answer: taken out, so that the client sees one answer.

The proxy answers such a call itself and asks the model again. Several answers of the upstream then
become one for the client: one beginning, one end, the usage of all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.wires.answers import parsed_document
from chat_proxy.wires.event_streams.events import EventSplitter, document_of
from chat_proxy.wires.reading import Fields
from chat_proxy.wires.usage import token_count


class OwnCall(NamedTuple):
    """A call of the proxy's own tool."""

    id: str
    arguments: str


class Round(NamedTuple):
    """One answer of the upstream in which the model called the tool, and the results."""

    items: list[Fields]
    """What the model said and called, then the results, as items of the API's own list."""
    shown: int
    """How much of it the client has seen: characters of text, or parts of the answer."""


class OwnCallEdit(ABC):
    """Takes the calls of one tool out of the answers to one request; used for one client only."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._splitter = EventSplitter()
        self.may_go_on = True
        """Whether the model may be asked again; if not, its calls are dropped."""
        self.goes_on = False
        self.calls: list[OwnCall] = []
        self.rounds = 0
        self._ending: list[bytes] | None = None
        """The last events, held until `end`; None before them."""

    def feed(self, chunk: bytes) -> bytes:
        """Return the events of a chunk without calls of the tool.

        The last events of an answer that had calls are held until `end`: the client may send its
        next request as soon as it has them.
        """
        passing: list[bytes] = []
        for event in self._splitter.feed(chunk):
            edited = self._edited(event)
            (passing if self._ending is None else self._ending).append(edited)
        return b"".join(passing)

    def end(self) -> bytes:
        """Return what is left of a stream."""
        rest = b"".join((*(self._ending or ()), self._splitter.rest()))
        self._ending = None
        return b"" if self.goes_on else rest

    def whole(self, body: bytes) -> bytes:
        """Return an answer without calls of the tool; the same bytes if it has none."""
        document = parsed_document(body)
        changed = self.document(document)
        return body if changed is document else serialise(changed)

    def next_round(self) -> None:
        """Expect the next answer of the upstream to the same request."""
        self.rounds += 1
        self.goes_on = False
        self.calls = []
        self._splitter = EventSplitter()
        self._ending = None
        self._begin_round()

    @abstractmethod
    def document(self, document: Fields) -> Fields:
        """Return a whole answer without calls of the tool; the same object if it has none."""

    @abstractmethod
    def event(self, document: Fields) -> Fields | None:
        """Return an event without calls of the tool; None if nothing is left of it."""

    @abstractmethod
    def said(self) -> list[Fields]:
        """Return what the model said and called in this round, as items of the API's list."""

    @property
    @abstractmethod
    def shown(self) -> int:
        """How much of this round the client has seen."""

    @abstractmethod
    def results(self, texts: list[str]) -> list[Fields]:
        """Return the results of this round's calls, as items of the API's list."""

    @abstractmethod
    def answer(self) -> list[Fields]:
        """Return the answer as the client will send it back, as items of the API's list."""

    @abstractmethod
    def _begin_round(self) -> None:
        """Forget the last answer, but not what the client has seen."""

    @abstractmethod
    def _written(self, document: Fields) -> bytes:
        """Return a changed event as bytes."""

    def _settle(self, calls: list[OwnCall], *, has_others: bool, is_cut: bool) -> None:
        """Know the calls of the tool when the answer ends.

        A call in an answer that was cut, by its longest length for example, is dropped: it may be
        incomplete, and the client is to see that its answer was cut.
        """
        self.calls = [] if is_cut else calls
        self.goes_on = bool(self.calls) and not has_others and self.may_go_on
        if self.calls or self.rounds:
            self._ending = []

    def _fail(self) -> None:
        """Know that the upstream has broken off this answer: nothing continues it."""
        self.goes_on = False
        self.calls = []

    def _edited(self, event: bytes) -> bytes:
        document = document_of(event)
        if document is None:
            return b"" if self.goes_on and event.startswith(b"data:") else event
        changed = self.event(document)
        if changed is document:
            return event
        return b"" if changed is None else self._written(changed)


def behind(parts: Sequence[Any], seen: int, is_thought: Callable[[Any], bool]) -> int:
    """Return the position behind so many parts of an answer; thoughts are not counted.

    Clients send thoughts back or leave them out. Those in front of what follows belong to it.
    """
    for position, part in enumerate(parts):
        if not seen:
            return position
        seen -= not is_thought(part)
    return len(parts)


def object_in(arguments: Any) -> str:
    """Return the arguments of a call if they are a JSON object, else an empty one.

    Servers refuse a history in which a call has other arguments.
    """
    try:
        is_object = type(arguments) is str and type(orjson.loads(arguments)) is dict
    except orjson.JSONDecodeError:
        is_object = False
    return arguments if is_object else "{}"


class SummedUsage:
    """The usage of several answers: every count in it is the sum of theirs."""

    def __init__(self) -> None:
        self._sum: Fields = {}

    def add(self, usage: Any) -> None:
        """Add the usage of an answer that the client does not see."""
        if type(usage) is dict:
            self._sum = _added(self._sum, usage)

    def with_last(self, usage: Any) -> Any:
        """Return the usage of the last answer with all others added to it."""
        return _added(usage, self._sum) if self._sum and type(usage) is dict else usage


def _added(one: Fields, other: Fields) -> Fields:
    """Return the sums of two usages, also of the counts nested in them."""
    both = dict(one)
    for name, value in other.items():
        mine = both.get(name)
        if type(value) is dict:
            both[name] = _added(mine if type(mine) is dict else {}, value)
        elif type(value) is int:
            both[name] = token_count(mine) + token_count(value)
        elif mine is None:
            both[name] = value
    return both
