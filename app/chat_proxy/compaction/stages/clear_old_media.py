"""The stage that decides which old media a conversation can do without."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.apply_clearing import media_note, media_slots
from chat_proxy.compaction.clearing import Clearing, Place
from chat_proxy.compaction.stages.clear_stage import Pressure
from chat_proxy.compaction.tool_results import seen_until


@dataclass(frozen=True, slots=True)
class ClearOldMediaPolicy:
    """How many of the newest media stay, of those that tools returned and of all others."""

    enabled: bool
    keep_user_media: int
    keep_tool_media: int


class _Medium(NamedTuple):
    message: int
    place: Place
    is_of_tool: bool
    gain: int


class ClearOldMedia:
    """Give up old pictures, sound, films and files for a note that says what they were.

    What the user has just sent stays, and so does what the model has not seen yet.
    """

    name = "clear_old_media"

    def __init__(self, policy: ClearOldMediaPolicy) -> None:
        self._policy = policy

    def __call__(self, conversation: Conversation, done: Clearing, pressure: Pressure) -> Clearing:
        """Decide what goes beyond what is gone already."""
        if not self._policy.enabled:
            return Clearing()
        media = [medium for medium in _media(conversation, pressure) if _is_there(medium, done)]
        of_tools = [medium for medium in media if medium.is_of_tool]
        others = [medium for medium in media if not medium.is_of_tool]
        old = [
            *of_tools[: max(0, len(of_tools) - self._policy.keep_tool_media)],
            *others[: max(0, len(others) - self._policy.keep_user_media)],
        ]
        free = _free_indexes(conversation)
        places = (medium.place for medium in old if medium.message in free and medium.gain > 0)
        return Clearing(media=frozenset(places))


def _is_there(medium: _Medium, done: Clearing) -> bool:
    return medium.place not in done.media and Place(medium.place.origin) not in done.results


def _free_indexes(conversation: Conversation) -> set[int]:
    """Return the messages whose media may go: neither instructions nor what is being asked."""
    free = set(range(conversation.instructions, seen_until(conversation)))
    turn = conversation.current_turn
    return free.difference(turn.users) if turn else free


def _media(conversation: Conversation, pressure: Pressure) -> Iterator[_Medium]:
    """Yield the media of the client's own messages, the oldest first."""
    for index, message in enumerate(conversation.messages):
        origin = conversation.origins[index]
        if origin is None or type(message.content) not in (list, dict):
            continue
        media = tuple(message.media())
        if not media:
            continue
        numbers = {slot.path: number for number, slot in enumerate(media_slots(message))}
        for medium, tokens in zip(media, pressure.weigh_media(index), strict=True):
            place = Place(origin, numbers[medium.path])
            gain = tokens - pressure.count(media_note(medium.mime))
            yield _Medium(index, place, message.is_tool_result, gain)
