"""Treatments: what a decision keeps, so that later requests repeat it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.compaction.ageing.treatments import Place, Treatments
from tests.unit.compaction.examples import any_treatments, at, sized

EMPTY: dict[str, Any] = Treatments().as_document()


def test_both_together_show_what_is_shorter() -> None:
    first = Treatments(short={Place(1): 300, Place(3): 200}, calls=sized(400, 5))
    second = Treatments(lines=at(1), short={Place(3): 100, Place(4): 50}, calls=sized(900, 5, 6))

    both = first | second

    assert both.lines == at(1)
    assert both.short == {Place(3): 100, Place(4): 50}
    assert both.calls == {Place(5): 400, Place(6): 900}


def test_media_of_both_are_noted() -> None:
    both = Treatments(media=at((0, 0))) | Treatments(media=at((0, 1), (2, 0)))

    assert both.media == at((0, 0), (0, 1), (2, 0))


@given(any_treatments, any_treatments)
def test_the_order_of_a_union_does_not_matter(first: Treatments, second: Treatments) -> None:
    assert first | second == second | first
    assert (first | second) | first == first | second


def test_treatments_reach_behind_the_last_message_that_they_change() -> None:
    assert Treatments(at(1), sized(9, 4), {}, at((2, 0))).until == 5
    assert Treatments(calls=sized(9, 7)).until == 8
    assert Treatments().until == 0


def test_of_two_sizes_of_an_image_the_smaller_holds_and_a_note_replaces_both() -> None:
    both = Treatments(scaled={Place(0, 0): 900, Place(2, 1): 500}) | Treatments(
        media=at((2, 1)), scaled={Place(0, 0): 700}
    )

    assert both.scaled == {Place(0, 0): 700}
    assert both.media == at((2, 1))


def test_scaled_images_are_kept_moved_and_left_out_like_all_else() -> None:
    given = Treatments(scaled={Place(1, 0): 900, Place(4, 0): 500})

    assert given.until == 5
    assert given.from_origin(2).scaled == {Place(4, 0): 500}
    assert given.shifted(-1).scaled == {Place(0, 0): 900, Place(3, 0): 500}
    assert given.as_document()["scaled"] == [[1, 0, 900], [4, 0, 500]]
    assert Treatments.from_document(given.as_document()) == given


def test_only_empty_treatments_are_false() -> None:
    assert not Treatments()
    assert Treatments(at(1))
    assert Treatments(short=sized(9, 1))
    assert Treatments(calls=sized(9, 1))
    assert Treatments(media=at((1, 0)))
    assert Treatments(scaled={Place(1, 0): 300})


def test_treatments_from_an_origin_on_leave_out_what_was_folded() -> None:
    given = Treatments(at(1, 4), sized(9, 2, 5), sized(9, 3, 6), at((1, 0), (7, 1)))

    assert given.from_origin(4) == Treatments(at(4), sized(9, 5), sized(9, 6), at((7, 1)))
    assert given.from_origin(0) == given
    assert given.from_origin(8) == Treatments()


def test_the_document_is_in_order() -> None:
    given = Treatments(at(7, 2, (2, 1)), {Place(9): 50, Place(4, 0): 60}, {}, at((3, 0)))

    assert given.as_document() == {
        "lines": [[2, -1], [2, 1], [7, -1]],
        "short": [[4, 0, 60], [9, -1, 50]],
        "calls": [],
        "media": [[3, 0]],
    }


@given(any_treatments)
def test_treatments_survive_json(given: Treatments) -> None:
    document = json.loads(json.dumps(given.as_document()))

    assert Treatments.from_document(document) == given


@given(st.permutations([1, 5, 9, 2]))
def test_equal_treatments_give_equal_documents(order: list[int]) -> None:
    """BUGS 44"""
    given = Treatments(at(*order), {Place(origin): 30 for origin in order})

    assert given.as_document() == Treatments(at(1, 2, 5, 9), sized(30, 1, 2, 5, 9)).as_document()


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"lines": [], "short": [], "media": []},
        {**EMPTY, "more": []},
        {**EMPTY, "lines": None},
        {**EMPTY, "lines": {}},
        {**EMPTY, "lines": [1]},
        {**EMPTY, "lines": ["12"]},
        {**EMPTY, "lines": [[1, 2, 3]]},
        {**EMPTY, "short": [[1, 2]]},
        {**EMPTY, "short": [[1, -1, "9"]]},
        {**EMPTY, "short": {"1": 9}},
        {**EMPTY, "calls": [[1, 2]]},
        {**EMPTY, "calls": [[1, -1, 2.0]]},
        {**EMPTY, "media": [[1, "0"]]},
        {**EMPTY, "media": [[1.0, 0]]},
        {**EMPTY, "media": [[True, False]]},
        {**EMPTY, "media": [[-1, 0]]},
        {**EMPTY, "media": [[0, -2]]},
    ],
)
def test_what_is_no_document_of_treatments_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match=r"[Tt]reatment"):
        Treatments.from_document(document)
