"""Images that stay are scaled to their share before any text is folded."""

from dataclasses import replace
from typing import Any

import pytest

from chat_proxy.chat.media import Media
from chat_proxy.compaction.ageing.treatments import Place
from chat_proxy.compaction.planner.forms import FoldOption, Goal, Planner
from chat_proxy.compaction.planner.plan import Plan
from chat_proxy.compaction.planner.view import View, no_fit
from chat_proxy.tokens.images.fit import Fit
from tests.unit.chat.shapes import Fields, image, says, system, text, user
from tests.unit.compaction.examples import at
from tests.unit.compaction.planner.views import AGEING, BUDGET, talk, view_of

LEAST = 100


def fit(_: Media, max_tokens: int) -> Fit | None:
    """An image that has as many tokens as it may, but not too few."""
    return Fit(max_tokens, max_tokens) if LEAST <= max_tokens < 1_000 else None


def scalable(*messages: Fields, **fields: Any) -> View:
    return replace(view_of(*messages, **fields), fit=fit)


def plan(view: View, target: int, limit: int, **option: Any) -> Plan:
    found = Planner(view, AGEING, BUDGET).plan(Goal(target, limit, limit), FoldOption(**option))
    assert found is not None
    return found


def looks(words: str = "look") -> Fields:
    return user([text(words), image()])


def test_an_image_that_does_not_fit_is_scaled_to_what_is_left() -> None:
    """BUGS 32"""
    found = plan(scalable(looks()), 700, 900)

    assert (found.form, found.current_media) == ("media scaled", None)
    assert found.treatments.scaled == {Place(0, 0): 692}
    assert found.tokens <= 700
    assert "scaled down" in found.reasons[0]


def test_older_images_become_notes_before_the_newest_is_scaled() -> None:
    view = scalable(looks(), says(), looks(), says(), user("and?"))

    found = plan(view, 800, 900)

    assert found.form == "media scaled"
    assert found.treatments.media == at((0, 0))
    assert set(found.treatments.scaled) == {Place(2, 0)}


def test_images_keep_half_of_the_room_and_text_is_folded_beyond_that() -> None:
    view = scalable(*talk(400, 400, 400), looks())

    found = plan(view, 1_000, 1_400, is_allowed=True)

    assert found.folds
    assert found.treatments.scaled == {Place(6, 0): 500}


def test_in_the_last_resort_an_image_is_scaled_further_and_then_named() -> None:
    view = scalable(system("s" * 500), looks("w" * 300), window=2_000)

    smaller = plan(view, 900, 1_010, is_allowed=True)
    named = plan(replace(view, fit=no_fit), 900, 1_010, is_allowed=True)

    assert (smaller.current_media, set(smaller.treatments.scaled)) == (None, {Place(1, 0)})
    assert named.current_media == 0


def test_several_images_share_the_room() -> None:
    found = plan(scalable(user([image(), image()])), 900, 950)

    assert found.treatments.scaled == {Place(0, 0): 448, Place(0, 1): 448}


@pytest.mark.parametrize("enabled", [True, False])
def test_scaling_does_not_depend_on_ageing(enabled: bool) -> None:
    planner = Planner(scalable(looks()), replace(AGEING, enabled=enabled), BUDGET)

    found = planner.plan(Goal(700, 900, 900))

    assert found is not None
    assert found.form == "media scaled"


def test_what_cannot_be_scaled_is_named_as_before() -> None:
    found = plan(view_of(looks()), 700, 900, is_allowed=True)

    assert (found.form, found.current_media) == ("media noted", 0)
    assert not found.treatments.scaled
