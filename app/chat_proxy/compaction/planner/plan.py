"""A plan: one treatment for every group of messages, and the room of the folded text."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from chat_proxy.compaction.ageing.treatments import Treatments

Form = Literal[
    "unchanged",
    "superseded",
    "media thinned",
    "media scaled",
    "aged",
    "folded",
    "folded and aged",
    "folded further",
    "fold cut",
    "newest steps shortened",
    "media noted",
    "smallest",
]
"""The forms in order of loss; the first that is small enough is taken."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done to a conversation, and how large it is then."""

    form: Form
    end: int
    """The index before which all messages are folded."""
    room: int | None
    """The tokens that the folded text may have; None: it stays as it is."""
    treatments: Treatments
    """Everything that is aged, earlier treatments included."""
    tokens: int
    """About the tokens of the prompt."""
    reasons: dict[int, str]
    """Why a message was aged, by its index."""
    current_media: int | None = None
    """How many of the newest media of the current turn stay; None: all."""

    @property
    def folds(self) -> bool:
        """Whether there is a new folded text."""
        return self.room is not None


class GroupPlan(NamedTuple):
    """The treatment of one group of messages, with its reason."""

    start: int
    end: int
    treatment: str
    reason: str


class Unfit(NamedTuple):
    """Why no form of a request fits, in tokens."""

    instructions: int
    """The tokens of instructions and tool definitions."""
    current: int
    """The tokens of the current user message and the newest step in its smallest form."""
    window: int

    @property
    def sentence(self) -> str:
        """One sentence with the numbers, for headers, logs and pages."""
        if self.instructions >= self.window:
            return (
                f"instructions and tools alone take {self.instructions:,} of {self.window:,} tokens"
            )
        return (
            f"instructions and tools ({self.instructions:,} tokens) and the current message"
            f" ({self.current:,} tokens) do not fit into {self.window:,} tokens"
        )
