"""The stage that decides which old media to clear."""

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
    """How many of the newest media are kept: those that tools returned, and all others."""

    enabled: bool
    keep_user_media: int
    keep_tool_media: int


class _Medium(NamedTuple):
    message: int
    place: Place
    is_from_tool: bool
    gain: int


class ClearOldMedia:
    """Replace old images, audio, video and files by a note with their type.

    Media in the user messages of the current turn are kept, and media that the model has not seen
    yet.
    """

    name = "clear_old_media"

    def __init__(self, policy: ClearOldMediaPolicy) -> None:
        self._policy = policy

    def __call__(self, conversation: Conversation, done: Clearing, pressure: Pressure) -> Clearing:
        """Return the media to clear in addition to `done`."""
        if not self._policy.enabled:
            return Clearing()
        media = [medium for medium in _media(conversation, pressure) if _is_present(medium, done)]
        from_tools = [medium for medium in media if medium.is_from_tool]
        others = [medium for medium in media if not medium.is_from_tool]
        old = [
            *from_tools[: max(0, len(from_tools) - self._policy.keep_tool_media)],
            *others[: max(0, len(others) - self._policy.keep_user_media)],
        ]
        clearable = _clearable_indexes(conversation)
        places = (medium.place for medium in old if medium.message in clearable and medium.gain > 0)
        return Clearing(media=frozenset(places))


def _is_present(medium: _Medium, done: Clearing) -> bool:
    return medium.place not in done.media and Place(medium.place.origin) not in done.results


def _clearable_indexes(conversation: Conversation) -> set[int]:
    """Return the messages whose media may be cleared: no instructions, no current user messages."""
    clearable = set(range(conversation.instructions, seen_until(conversation)))
    turn = conversation.current_turn
    return clearable.difference(turn.users) if turn else clearable


def _media(conversation: Conversation, pressure: Pressure) -> Iterator[_Medium]:
    """Yield the media of the client's own messages, oldest first."""
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
