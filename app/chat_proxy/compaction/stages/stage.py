"""What a stage gets and what it gives back."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message_features import MessageFeatures

NOTHING_CUT: Final[Mapping[str, str]] = MappingProxyType({})


class StageContext(NamedTuple):
    """What a stage may know beside the conversation and its own policy."""

    can_see: bool | None = None
    """Whether the model takes images; None if nobody said."""
    offload_id: Callable[[str], str] | None = None
    """Names the place where a text that is cut is kept whole; None: no text is kept."""
    file_of: Callable[[str], str] | None = None
    """Names the file that has such a text, for agents that can read it; None: no file is told."""
    whole: frozenset[str] = frozenset()
    """Offload ids of texts that could not be kept, and so must not be cut."""


class StageResult(NamedTuple):
    """A conversation after a stage: the very same object if there was nothing to do."""

    conversation: Conversation
    offloads: Mapping[str, str] = NOTHING_CUT
    """Texts that were cut, by offload id; to be kept before the conversation is used."""
    notice: str = ""
    """A sentence for the log, without a word of the conversation."""


class Stage(Protocol):
    """A pure step that makes a conversation smaller, message by message or turn by turn."""

    name: str

    def leaves_alone(self, shape: MessageFeatures) -> bool:
        """Tell at a glance that there is nothing to do, in these messages or some of them."""
        ...

    def __call__(self, conversation: Conversation, context: StageContext) -> StageResult:
        """Return the conversation, smaller or as it was."""
        ...
