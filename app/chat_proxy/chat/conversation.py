"""A conversation: its messages, and where it may be cut without tearing anything apart."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Self

from chat_proxy.caches import cached_once
from chat_proxy.chat.body.prefixes import NOTHING, Beginning
from chat_proxy.chat.message import Message
from chat_proxy.chat.message_features import MessageFeatures, is_list_of_objects, shape_of
from chat_proxy.chat.texts import RESULT_ROLES


class Group(NamedTuple):
    """The messages `start:end` that stay together: one, or a caller with its tool results."""

    start: int
    end: int


class Turn(NamedTuple):
    """The messages `start:end` from a run of user messages to the next one.

    `users` are the indexes of its user messages; a history that begins without one has a turn
    without any.
    """

    start: int
    end: int
    users: tuple[int, ...]


class Conversation:
    """An immutable list of messages that knows its groups, turns and seams.

    `origins` says where each message stood in the client's own list: a message that was changed
    keeps its place, and one that the client did not send has none.
    """

    beginning: Beginning = NOTHING
    _shape: MessageFeatures | None = None

    def __init__(
        self, messages: Iterable[Message], origins: Sequence[int | None] | None = None
    ) -> None:
        self.fields: Sequence[dict[str, Any]] = [message.fields for message in messages]
        self.origins: Sequence[int | None] = range(len(self.fields)) if origins is None else origins

    @classmethod
    def of(cls, messages: object) -> Self | None:
        """View the client's list, or return None if its shape is not understood."""
        if not is_list_of_objects(messages):
            return None
        conversation = cls.__new__(cls)
        conversation.fields = messages
        conversation.origins = range(len(messages))
        return conversation

    @cached_once
    def messages(self) -> tuple[Message, ...]:
        """The messages; made when they are asked for, as most requests are only counted."""
        return tuple(map(Message, self.fields))

    @property
    def shape(self) -> MessageFeatures:
        """What its messages are like: asked by whoever may have nothing to do."""
        if self._shape is None:
            self._shape = self._shape_now()
        return self._shape

    def _shape_now(self) -> MessageFeatures:
        return shape_of(self.fields)

    @property
    def rest(self) -> Sequence[dict[str, Any]]:
        """The messages behind the beginning that is known."""
        return self.fields

    def __len__(self) -> int:
        return len(self.origins)

    def __repr__(self) -> str:
        return f"Conversation({len(self)} messages)"

    def with_messages(self, changed: Mapping[int, Message]) -> "Conversation":
        """Return a conversation with other messages at some places; the very same one if none."""
        if not changed:
            return self
        messages = [changed.get(index, message) for index, message in enumerate(self.messages)]
        return Conversation(messages, self.origins)

    def only(self, indexes: Sequence[int]) -> "Conversation":
        """Return a conversation of some of the messages; the very same one if it is all of them."""
        if len(indexes) == len(self):
            return self
        messages = self.messages
        origins = self.origins
        return Conversation([messages[i] for i in indexes], [origins[i] for i in indexes])

    @cached_once
    def instructions(self) -> int:
        """How many system and developer messages lead the conversation."""
        for index, message in enumerate(self.messages):
            if not message.is_instruction:
                return index
        return len(self.messages)

    @cached_once
    def groups(self) -> tuple[Group, ...]:
        """Contiguous ranges over all messages; what lies between call and result belongs in."""
        return tuple(map(Group._make, pairwise((0, *self._borders))))

    @cached_once
    def turns(self) -> tuple[Turn, ...]:
        """Contiguous ranges over all messages after the instructions."""
        return tuple(_turns(self.messages, self.groups, self.instructions))

    @property
    def current_turn(self) -> Turn | None:
        """The last turn, which the model is asked to go on with."""
        return self.turns[-1] if self.turns else None

    @cached_once
    def seams(self) -> tuple[int, ...]:
        """Every position where the messages may be cut in two, both ends included."""
        first = self.instructions
        return (first, *(border for border in self._borders if border > first))

    @cached_once
    def _borders(self) -> tuple[int, ...]:
        """Where each group ends."""
        reaches = enumerate(_reaches(self.messages), 1)
        return tuple(index for index, end in reaches if end == index)


class GrownConversation(Conversation):
    """A client's list that begins as one before: the first messages are read when asked for."""

    def __init__(
        self,
        beginning: Beginning,
        rest: list[dict[str, Any]],
        read: Callable[[], list[dict[str, Any]]],
    ) -> None:
        self.beginning = beginning
        self.origins = range(beginning.messages + len(rest))
        self._rest = rest
        self._read = read

    @cached_once
    def fields(self) -> Sequence[dict[str, Any]]:
        """All messages."""
        return self._read()

    def _shape_now(self) -> MessageFeatures:
        """Return what its messages are like, those that are not read yet too."""
        return self.beginning.shape.with_more(shape_of(self._rest))

    @property
    def rest(self) -> Sequence[dict[str, Any]]:
        """The messages that are read already."""
        return self._rest


def _turns(messages: Sequence[Message], groups: Sequence[Group], first: int) -> Iterator[Turn]:
    start = first
    users: list[int] = []
    for group in groups[first:]:
        if messages[group.start].is_user:
            if group.start > start and not messages[group.start - 1].is_user:
                yield Turn(start, group.start, tuple(users))
                start, users = group.start, []
            users.append(group.start)
        elif group.end > group.start + 2:
            users += [index for index in range(*group) if messages[index].is_user]
    if start < len(messages):
        yield Turn(start, len(messages), tuple(users))


def _reaches(messages: Sequence[Message]) -> Iterator[int]:
    """Yield for each message how far it and those before it reach by their tool results."""
    ends = list(range(1, len(messages) + 1))
    calls = _OpenCalls()
    for index, message in enumerate(messages):
        role = message.role
        if role in RESULT_ROLES:
            caller = calls.take(message.answers)
            if caller is not None:
                ends[caller] = index + 1
        elif role == "assistant" and message.calls_tools:
            calls.open(index, _keys_of_calls(message))
        else:
            calls.last = None
    return accumulate(ends, max)


def _keys_of_calls(message: Message) -> Sequence[str | None]:
    """Return the calls' ids, and None if one of them has no id, as legacy calls never have."""
    ids = message.call_ids
    calls: Any = message.fields.get("tool_calls")
    if ids and len(ids) == len(calls) and not message.fields.get("function_call"):
        return ids
    return (*ids, None)


class _OpenCalls:
    """The calls that wait for their results, each found by its id in constant time."""

    def __init__(self) -> None:
        self.last: int | None = None
        """The caller whose results we are among; None once another message was seen."""
        self._waiting: dict[str | None, list[int]] = {}
        self._newest: dict[str | None, int] = {}

    def open(self, index: int, keys: Sequence[str | None]) -> None:
        """Remember a caller and the ids it waits for."""
        self.last = index
        for key in keys:
            self._newest[key] = index
            if key in self._waiting:
                self._waiting[key].append(index)
            else:
                self._waiting[key] = [index]

    def take(self, key: str | None) -> int | None:
        """Return the nearest caller that still waits for this result.

        A second result for a call, or one whose call has no id, goes to the caller it follows.
        """
        waiting = self._waiting.get(key)
        if waiting and (key is not None or self.last in (None, waiting[-1])):
            return waiting.pop()
        if key is None or self.last in (self._newest.get(key), self._newest.get(None)):
            return self.last
        return None
