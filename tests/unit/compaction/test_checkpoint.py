import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.checkpoint import Checkpoint, index_of
from chat_proxy.compaction.clearing import Clearing, Place
from chat_proxy.compaction.summary.fold import fold
from tests.unit.chat.shapes import SURROGATE, conversation, says, system, user

CLEARED = Clearing(results=frozenset({Place(3), Place(5)}), media=frozenset({Place(2, 1)}))
FULL = Checkpoint(9, CLEARED, 1_200, 7, "the text", "the summary")

_places = st.frozensets(st.builds(Place, st.integers(0, 99), st.integers(-1, 5)), max_size=4)
_texts = st.text(max_size=30) | st.just(SURROGATE)


def _stored(**changes: Any) -> bytes:
    return json.dumps({**json.loads(FULL.to_bytes()), **changes}).encode()


def test_a_checkpoint_that_only_cleared_comes_back_as_it_was() -> None:
    given = Checkpoint(until=6, clearing=CLEARED, tokens=900)

    assert Checkpoint.from_bytes(given.to_bytes()) == given


@given(_places, _places, _places, st.integers(0, 10**9), _texts, _texts)
def test_every_checkpoint_comes_back_as_it_was(
    results: frozenset[Place],
    shortened: frozenset[Place],
    media: frozenset[Place],
    tokens: int,
    text: str,
    summary: str,
) -> None:
    clearing = Clearing(results, shortened, media)
    given = Checkpoint(8, clearing, tokens, 8 if text else 0, text, summary)

    assert Checkpoint.from_bytes(given.to_bytes()) == given


def test_equal_checkpoints_have_equal_bytes() -> None:
    """BUGS 44"""
    turned = Clearing(results=frozenset({Place(5), Place(3)}), media=frozenset({Place(2, 1)}))

    again = Checkpoint(9, turned, 1_200, 7, "the text", "the summary")

    assert again.to_bytes() == FULL.to_bytes()


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"[" * 100_000,
        _stored(version=2),
        _stored(version=None),
        _stored(until=-1),
        _stored(until=True),
        _stored(until="9"),
        _stored(tokens=1.5),
        _stored(folded_until=None),
        _stored(folded_until=10),
        _stored(text=None),
        _stored(text=""),
        _stored(summary=["x"]),
        _stored(clearing=None),
        _stored(clearing={"results": [["x"]], "shortened": [], "media": []}),
    ],
)
def test_what_is_no_checkpoint_is_refused(stored: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words do not matter
        Checkpoint.from_bytes(stored)


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
