"""A conversation: its messages, and where it can be cut without separating calls from results."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from chat_proxy.caches import cached_once
from chat_proxy.chat.body.prefixes import NOTHING, BodyPrefix
from chat_proxy.chat.groups import Group, attachments_in, group_ends, groups_between
from chat_proxy.chat.message import Message
from chat_proxy.chat.message_features import MessageFeatures, is_list_of_objects, shape_of


class Turn(NamedTuple):
    """The messages `start:end` from a run of user messages to the next one.

    `users` are the indexes of its user messages; a history that begins without one has a turn
    without any.
    """

    start: int
    end: int
    users: tuple[int, ...]


class Conversation:
    """An immutable list of messages with its groups, turns and seams.

    `origins` holds the index of each message in the client's list. A changed message keeps its
    index; a message that the client did not send has None.
    """

    beginning: BodyPrefix = NOTHING
    _shape: MessageFeatures | None = None

    def __init__(
        self, messages: Iterable[Message], origins: Sequence[int | None] | None = None
    ) -> None:
        self.fields: Sequence[dict[str, Any]] = [message.fields for message in messages]
        self.origins: Sequence[int | None] = range(len(self.fields)) if origins is None else origins

    @classmethod
    def of(cls, messages: object) -> Self | None:
        """Return a view of the client's list, or None if it is not a list of objects."""
        if not is_list_of_objects(messages):
            return None
        conversation = cls.__new__(cls)
        conversation.fields = messages
        conversation.origins = range(len(messages))
        return conversation

    @cached_once
    def messages(self) -> tuple[Message, ...]:
        """The messages, created on first use because most requests are only counted."""
        return tuple(map(Message, self.fields))

    @property
    def shape(self) -> MessageFeatures:
        """The features of its messages, by which a stage can see that it has nothing to do."""
        if self._shape is None:
            self._shape = self._compute_shape()
        return self._shape

    def _compute_shape(self) -> MessageFeatures:
        return shape_of(self.fields)

    @property
    def rest(self) -> Sequence[dict[str, Any]]:
        """The messages after the known prefix."""
        return self.fields

    def __len__(self) -> int:
        return len(self.origins)

    def __repr__(self) -> str:
        return f"Conversation({len(self)} messages)"

    def with_messages(self, changed: Mapping[int, Message]) -> "Conversation":
        """Return a conversation with other messages at these indexes; the same object if none."""
        if not changed:
            return self
        messages = [changed.get(index, message) for index, message in enumerate(self.messages)]
        return Conversation(messages, self.origins)

    def only(self, indexes: Sequence[int]) -> "Conversation":
        """Return a conversation of some of the messages; the same object if these are all."""
        if len(indexes) == len(self):
            return self
        messages = self.messages
        origins = self.origins
        return Conversation([messages[i] for i in indexes], [origins[i] for i in indexes])

    @cached_once
    def instructions(self) -> int:
        """The number of system and developer messages at the start."""
        for index, message in enumerate(self.messages):
            if not message.is_instruction:
                return index
        return len(self.messages)

    @cached_once
    def groups(self) -> tuple[Group, ...]:
        """Contiguous ranges over all messages, including any between a call and its result."""
        return groups_between(self._group_ends)

    @cached_once
    def turns(self) -> tuple[Turn, ...]:
        """Contiguous ranges over all messages after the instructions."""
        return tuple(_turns(self.messages, self.groups, self.instructions, self.attachments))

    @cached_once
    def attachments(self) -> frozenset[int]:
        """The indexes of user messages that only carry the media of tool results."""
        return attachments_in(self.messages)

    @property
    def current_turn(self) -> Turn | None:
        """The last turn, which the model is asked to continue."""
        return self.turns[-1] if self.turns else None

    @cached_once
    def seams(self) -> tuple[int, ...]:
        """Every position at which the messages can be cut in two, including both ends."""
        first = self.instructions
        return (first, *(end for end in self._group_ends if end > first))

    @cached_once
    def _group_ends(self) -> tuple[int, ...]:
        """The index at which each group ends."""
        return group_ends(self.messages, self.attachments)


class PrefixedConversation(Conversation):
    """A client's list with a known prefix: the first messages are parsed only when needed."""

    def __init__(
        self,
        beginning: BodyPrefix,
        rest: list[dict[str, Any]],
        read: Callable[[], list[dict[str, Any]]],
    ) -> None:
        self.beginning = beginning
        self.origins = range(beginning.messages + len(rest))
        self._rest = rest
        self._read = read

    @cached_once
    def fields(self) -> Sequence[dict[str, Any]]:
        """All messages, parsed on first use."""
        return self._read()

    def _compute_shape(self) -> MessageFeatures:
        """Return the features of all messages, including those that are not parsed yet."""
        return self.beginning.shape.combined_with(shape_of(self._rest))

    @property
    def rest(self) -> Sequence[dict[str, Any]]:
        """The messages that are already parsed."""
        return self._rest


def answered_until(conversation: Conversation) -> int:
    """Return the index of the first unanswered message; a call stays with its results."""
    messages = conversation.messages
    for group in reversed(conversation.groups):
        if messages[group.start].is_assistant:
            return group.start if messages[group.start].calls_tools else group.end
    return conversation.instructions


def carried(conversation: Conversation, end: int) -> tuple[int, ...]:
    """Return the user messages before `end` of the turn that continues after it.

    The result depends only on the messages before `end` and on whether a new turn begins there:
    messages that are appended later do not change it.
    """
    turn = _turn_before(conversation, end)
    if turn is None or end >= turn.end:
        return ()
    return tuple(index for index in turn.users if index < end)


def before_opening(conversation: Conversation, end: int) -> int:
    """Move an end inside a turn's opening user messages before them, as a fold keeps them."""
    turn = _turn_before(conversation, end)
    if turn is None or end > turn.end:
        return end
    messages = conversation.messages
    is_opening = all(messages[index].is_user for index in range(turn.start, end))
    return turn.start if is_opening else end


def start_of_last(conversation: Conversation, turns: int) -> int:
    """Return the index where the last `turns` turns begin."""
    kept = conversation.turns[-turns:] if turns > 0 else ()
    return kept[0].start if kept else len(conversation)


def end_by_turns(conversation: Conversation, keep_turns: int) -> int:
    """Return where a fold ends that keeps the last `keep_turns` turns, whatever their size."""
    end = min(start_of_last(conversation, keep_turns), answered_until(conversation))
    return before_opening(conversation, end)


def _turn_before(conversation: Conversation, end: int) -> Turn | None:
    """Return the last turn that begins before `end`."""
    turns = conversation.turns
    index = bisect_left(turns, end, key=lambda turn: turn.start)
    return turns[index - 1] if index else None


def turns_by_role(conversation: Conversation) -> tuple[Turn, ...]:
    """Return the turns by the roles alone: attachments of tool results begin a turn too."""
    messages, none = conversation.messages, frozenset[int]()
    groups = groups_between(group_ends(messages, none))
    return tuple(_turns(messages, groups, conversation.instructions, none))


def _turns(
    messages: Sequence[Message],
    groups: Sequence[Group],
    first: int,
    attachments: frozenset[int],
) -> Iterator[Turn]:
    start = first
    users: list[int] = []
    for group in groups[first:]:
        if messages[group.start].is_user and group.start not in attachments:
            if group.start > start and not _is_user_at(group.start - 1, messages, attachments):
                yield Turn(start, group.start, tuple(users))
                start, users = group.start, []
            users.append(group.start)
        elif group.end > group.start + 2:
            users += [i for i in range(*group) if _is_user_at(i, messages, attachments)]
    if start < len(messages):
        yield Turn(start, len(messages), tuple(users))


def _is_user_at(index: int, messages: Sequence[Message], attachments: frozenset[int]) -> bool:
    return messages[index].is_user and index not in attachments
