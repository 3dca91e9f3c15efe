"""Checkpoints: stored, read again to the same value, refused when they are anything else."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.ageing.treatments import Place, Treatments
from chat_proxy.compaction.checkpoint import Checkpoint, index_of
from chat_proxy.compaction.recognition.digests import Covered, MessageDigest
from chat_proxy.compaction.summary.fold import fold
from tests.unit.chat.shapes import SURROGATE, conversation, says, system, user
from tests.unit.compaction.examples import any_treatments, at

AGED = Treatments(at(3, 5), {Place(6): 900}, {Place(7): 400}, at((2, 1)))
FULL = Checkpoint(
    9,
    AGED,
    1_200,
    folded_until=7,
    text="the text",
    summary="the summary",
    summarised_until=6,
    sources=("offload id a", "offload id b"),
    names_places=True,
)

_texts = st.text(max_size=30) | st.just(SURROGATE)


def stored(**changes: Any) -> bytes:
    return json.dumps({**json.loads(FULL.to_bytes()), **changes}).encode()


def test_a_checkpoint_that_only_ages_comes_back_as_it_was() -> None:
    given = Checkpoint(until=6, treatments=AGED, tokens=900)

    assert Checkpoint.from_bytes(given.to_bytes()) == given


def test_a_checkpoint_with_everything_comes_back_as_it_was() -> None:
    assert Checkpoint.from_bytes(FULL.to_bytes()) == FULL


def test_the_digests_of_covered_messages_come_back_as_they_were() -> None:
    covered = Covered((MessageDigest("user", b"12345678"),), {}, b"older")

    read = Checkpoint.from_bytes(replace(FULL, covered=covered).to_bytes())

    assert read.covered == covered


@pytest.mark.parametrize("offset", [0, 2, -3, -6])
def test_a_checkpoint_is_moved_with_its_messages(offset: int) -> None:
    moved = FULL.shifted(offset)

    assert moved.until == 9 + offset
    assert moved.folded_until == 7 + offset
    assert moved.summarised_until == 6 + offset
    assert moved.treatments.until == 8 + offset
    assert replace(moved, treatments=AGED, until=9, folded_until=7, summarised_until=6) == FULL


def test_what_is_moved_out_of_the_list_is_forgotten() -> None:
    moved = FULL.shifted(-7)

    assert (moved.until, moved.folded_until, moved.summarised_until) == (2, 0, 0)
    assert moved.treatments == Treatments(calls={Place(0): 400})


def test_a_checkpoint_that_folds_nothing_folds_nothing_elsewhere() -> None:
    moved = Checkpoint(6, AGED, 900).shifted(4)

    assert (moved.until, moved.folded_until, moved.summarised_until) == (10, 0, 0)


def test_a_summary_that_is_only_prepared_has_no_text_yet() -> None:
    prepared = replace(FULL, text="", treatments=Treatments(), sources=())

    assert Checkpoint.from_bytes(prepared.to_bytes()) == prepared


@given(any_treatments, st.integers(0, 10**9), _texts, _texts, st.lists(_texts, max_size=3))
def test_every_checkpoint_comes_back_as_it_was(
    treatments: Treatments, tokens: int, text: str, summary: str, sources: list[str]
) -> None:
    folded = 8 if text or summary else 0
    checkpoint = Checkpoint(8, treatments, tokens, folded, text, summary, folded, tuple(sources))

    assert Checkpoint.from_bytes(checkpoint.to_bytes()) == checkpoint


def test_equal_checkpoints_have_equal_bytes() -> None:
    """BUGS 44"""
    turned = Treatments(at(5, 3), {Place(6): 900}, {Place(7): 400}, at((2, 1)))

    assert replace(FULL, treatments=turned).to_bytes() == FULL.to_bytes()


@pytest.mark.parametrize(
    "row",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"[" * 100_000,
        stored(version=1),
        stored(version=2),
        stored(version=4),
        stored(version=None),
        stored(until=-1),
        stored(until=True),
        stored(until="9"),
        stored(tokens=1.5),
        stored(folded_until=None),
        stored(folded_until=10),
        stored(summarised_until=None),
        stored(summarised_until=-1),
        stored(text=None),
        stored(text="", summary=""),
        stored(summary=["x"]),
        stored(sources=None),
        stored(sources="offload id a"),
        stored(sources=["a", 1]),
        stored(treatments=None),
        stored(covered=None),
        stored(covered={"messages": "AA==", "ends": {}, "older": ""}),
        stored(treatments={"lines": [["x"]], "short": [], "calls": [], "media": []}),
    ],
)
def test_what_is_no_checkpoint_is_refused(row: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words do not matter
        Checkpoint.from_bytes(row)


def test_a_boundary_is_found_again_in_a_trimmed_conversation() -> None:
    talk = conversation(system(), user(), says(), user(), says(), user())

    trimmed = talk.only([0, 3, 4, 5])

    assert [index_of(talk, end) for end in (0, 3, 6)] == [0, 3, 6]
    assert [index_of(trimmed, end) for end in (1, 2, 3, 4, 9)] == [1, 1, 1, 2, 4]


def test_messages_that_the_client_did_not_send_are_no_boundary() -> None:
    folded = fold(conversation(system(), user(), says(), user()), 3, "a summary")

    assert folded.origins == [0, None, None, 3]
    assert index_of(folded, 1) == 3
    assert index_of(Conversation(folded.messages[1:3], [None, None]), 0) == 2
