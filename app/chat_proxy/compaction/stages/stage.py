"""The interface of the trimming stages: their context and their result."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message_features import MessageFeatures

NOTHING_CUT: Final[Mapping[str, str]] = MappingProxyType({})


class StageContext(NamedTuple):
    """What a stage may use besides the conversation and its own policy."""

    can_see: bool | None = None
    """Whether the model accepts images; None if unknown."""
    offload_id: Callable[[str], str] | None = None
    """Returns the id under which the full text is stored; None: no text is stored."""
    file_of: Callable[[str], str] | None = None
    """Returns the file with the text of an id, for agents that can read it; None: name no file."""
    whole: frozenset[str] = frozenset()
    """Offload ids of texts that could not be stored, and so must not be truncated."""


class StageResult(NamedTuple):
    """A conversation after a stage: the same object if there was nothing to do."""

    conversation: Conversation
    offloads: Mapping[str, str] = NOTHING_CUT
    """The full texts of what was truncated, by offload id; store them before sending."""
    notice: str = ""
    """A sentence for the log, without any text of the conversation."""


class Stage(Protocol):
    """A pure step that makes a conversation smaller, message by message or turn by turn."""

    name: str

    def has_nothing_to_do(self, shape: MessageFeatures) -> bool:
        """Return whether messages with these features, or some of them, need no change.

        This must be cheap: it runs before the stage.
        """
        ...

    def __call__(self, conversation: Conversation, context: StageContext) -> StageResult:
        """Return the conversation, smaller or unchanged."""
        ...
