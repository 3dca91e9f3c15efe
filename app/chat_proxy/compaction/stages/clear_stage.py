"""How hard a conversation presses against its window, and the stages that act only then."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.clearing import Clearing


@dataclass(frozen=True, slots=True)
class Pressure:
    """The sizes that the clear stages weigh, in tokens as the upstream counts them."""

    budget: Budget
    sizes: Sequence[int]
    """Each message of the conversation."""
    count: Callable[[str], int]
    """A text."""
    weigh_media: Callable[[int], Sequence[int]]
    """The media of the message at an index, in their order."""
    excess: int
    """How much must go until the prompt is at 60 % of the trigger; negative: nothing must."""


class ClearStage(Protocol):
    """A pure step that changes nothing itself, but decides what is to be cleared."""

    name: str

    def __call__(self, conversation: Conversation, done: Clearing, pressure: Pressure) -> Clearing:
        """Return what is to be cleared beyond `done`, which the conversation is already without."""
        ...
