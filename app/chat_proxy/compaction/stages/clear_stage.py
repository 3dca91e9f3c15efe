"""The interface of the clear stages, which act on a conversation that nears its window."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.clearing import Clearing


@dataclass(frozen=True, slots=True)
class Pressure:
    """The sizes that the clear stages compare, in tokens as the upstream counts them."""

    budget: Budget
    sizes: Sequence[int]
    """The tokens of each message of the conversation."""
    count: Callable[[str], int]
    """Returns the tokens of a text."""
    weigh_media: Callable[[int], Sequence[int]]
    """Returns the tokens of each medium of the message at an index, in order."""
    excess: int
    """The tokens above 60 % of the trigger, which must be removed; negative: none."""


class ClearStage(Protocol):
    """A pure step that decides what to clear, and changes nothing itself."""

    name: str

    def __call__(self, conversation: Conversation, done: Clearing, pressure: Pressure) -> Clearing:
        """Return what to clear in addition to `done`, which the conversation already lacks."""
        ...
