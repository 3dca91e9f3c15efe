"""Which images are scaled down before any text is folded, so that both have their share."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from chat_proxy.chat.conversation import carried
from chat_proxy.compaction.ageing.policy import AgeingPolicy
from chat_proxy.compaction.ageing.treatments import Place, Treatments
from chat_proxy.compaction.planner.placed_media import (
    PlacedMedium,
    note_tokens,
    placed_media,
    without_newest,
)
from chat_proxy.compaction.planner.view import View
from chat_proxy.compaction.shares import fair_share
from chat_proxy.tokens.images.fit import Fit

SCALED_REASON: Final = "scaled down: the whole image is too large for the room"


def with_scaled_media(view: View, policy: AgeingPolicy, target: int) -> View:
    """Return the view with the images that stay scaled to what the target leaves them.

    They need not become smaller than half of what instructions leave of it: beyond that, text is
    folded. The same object if all images have room.
    """
    shown = list(placed_media(view, shown_indexes(view, view.folded)))
    leaving = leaving_media(view, policy, shown) if policy.enabled else []
    places = {it.place for it in leaving}
    staying = [it for it in shown if it.place not in places]
    total = sum(it.tokens for it in staying)
    gone = sum(max(0, it.tokens - note_tokens(view, it)) for it in leaving)
    half = max(0, target - view.fixed) // 2
    room = max(half, target - (view.tokens - gone - total))
    fits = fits_in(view, staying, room)
    return _scaled(view, staying, fits) if fits else view


def fits_in(view: View, media: Sequence[PlacedMedium], room: int) -> dict[Place, Fit]:
    """Return the smaller forms in which media share a room, of those that have one."""
    if sum(it.tokens for it in media) <= room:
        return {}
    share = fair_share([it.tokens for it in media], max(0, room))
    fits = ((it, view.fit(it.medium, share)) for it in media if it.tokens > share)
    return {it.place: fit for it, fit in fits if fit is not None and fit.tokens < it.tokens}


def shown_indexes(view: View, end: int) -> list[int]:
    """Return the indexes of the messages that a fold before `end` leaves in the prompt."""
    return [*carried(view.conversation, end), *range(end, len(view.conversation))]


def leaving_media(
    view: View, policy: AgeingPolicy, shown: Sequence[PlacedMedium]
) -> list[PlacedMedium]:
    """Return the media that may become notes, oldest first; `shown` has the newest first.

    Those of the current user messages and of the newest steps stay.
    """
    turn = view.conversation.current_turn
    users = frozenset(turn.users) if turn else frozenset()
    steps = view.newest_steps
    last = steps[0].start if steps else view.current_start
    return [
        it for it in without_newest(shown, policy) if it.message not in users and it.message < last
    ]


def _scaled(view: View, media: Sequence[PlacedMedium], fits: dict[Place, Fit]) -> View:
    sizes = list(view.sizes)
    known: dict[int, list[int]] = {}
    reasons = dict(view.reasons)
    for it in media:
        if it.place in fits:
            saved = it.tokens - fits[it.place].tokens
            sizes[it.message] -= saved
            its = known.setdefault(it.message, list(view.media_sizes(it.message)))
            its[it.number] -= saved
            reasons[it.message] = SCALED_REASON
    sides = {place: fit.side for place, fit in fits.items()}
    return replace(
        view,
        sizes=sizes,
        treatments=view.treatments | Treatments(scaled=sides),
        media_sizes=lambda index: known.get(index) or view.media_sizes(index),
        reasons=reasons,
    )
