import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.apply_clearing import clear
from chat_proxy.compaction.clearing import Clearing, Place
from chat_proxy.compaction.tool_results import seen_until
from tests.unit.chat.shapes import RECORDED, Fields, calls, conversation, result, says, user
from tests.unit.compaction.stages.pressing import at, busy_histories, busy_messages, clearings

LONG = "x" * 400
LIMIT = 120
MARK = {"type": "ephemeral"}
PNG_NOTE = "[Old inline media cleared: image/png]"


def _cleared(*messages: Fields, **places: frozenset[Place]) -> list[Fields]:
    outcome = clear(conversation(*messages), Clearing(**places), LIMIT)
    return list(outcome.fields)


# The decision


def test_two_clearings_together_do_not_shorten_what_is_cleared() -> None:
    first = Clearing(shortened=at(1, 3), media=at((0, 0)))
    second = Clearing(results=at(1), media=at((0, 1)))

    assert first | second == Clearing(at(1), at(3), at((0, 0), (0, 1)))


def test_a_clearing_reaches_behind_the_last_message_it_touches() -> None:
    assert Clearing(at(1), at(4), at((2, 0))).until == 5
    assert Clearing().until == 0


def test_only_an_empty_clearing_is_false() -> None:
    assert not Clearing()
    assert Clearing(at(1))
    assert Clearing(shortened=at(1))
    assert Clearing(media=at((1, 0)))


def test_a_clearing_is_written_in_order() -> None:
    written = Clearing(at(7, 2, (2, 1)), media=at((3, 0))).as_lists()

    assert written == {"results": [[2, -1], [2, 1], [7, -1]], "shortened": [], "media": [[3, 0]]}


@given(clearings)
def test_a_clearing_survives_json(clearing: Clearing) -> None:
    assert Clearing.from_lists(json.loads(json.dumps(clearing.as_lists()))) == clearing


_EMPTY: dict[str, Any] = Clearing().as_lists()


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"results": [], "shortened": []},
        {**_EMPTY, "more": []},
        {**_EMPTY, "results": None},
        {**_EMPTY, "results": {}},
        {**_EMPTY, "results": [1]},
        {**_EMPTY, "results": ["12"]},
        {**_EMPTY, "shortened": [[1]]},
        {**_EMPTY, "shortened": [[1, 2, 3]]},
        {**_EMPTY, "media": [[1, "0"]]},
        {**_EMPTY, "media": [[1.0, 0]]},
        {**_EMPTY, "media": [[True, False]]},
        {**_EMPTY, "media": [[-1, 0]]},
        {**_EMPTY, "media": [[0, -2]]},
    ],
)
def test_what_is_no_clearing_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match=r"clearing|Places|place"):
        Clearing.from_lists(document)


# What the model has not seen


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], 0),
        ([user(), result("a")], 0),
        ([user(), says(), user()], 2),
        ([user(), calls("a", "b"), result("a"), result("b")], 1),
        ([user(), calls("a"), result("a"), user("wait")], 1),
        ([user(), calls("a"), result("a"), says(), user()], 4),
        ([user(), calls("a"), result("a"), calls("b"), result("b")], 3),
        ([user(), calls("a", "b"), result("a"), says(), result("b")], 1),
        ([user(), calls("a"), result("a"), says("prefilled")], 1),
        ([says(), says()], 0),
    ],
)
def test_the_model_has_seen_what_it_answered(messages: list[Fields], expected: int) -> None:
    assert seen_until(conversation(*messages)) == expected


# For any history and decision


def _json(messages: Any) -> list[str]:
    return [json.dumps(message) for message in messages]


def _chars(given: Conversation) -> list[int]:
    """Return the texts' length, without the notes of media: those weigh more than their notes."""
    return [
        sum(len(words) for _, words in message.pieces() if "media cleared" not in words)
        for message in given.messages
    ]


@given(busy_histories, clearings, st.sampled_from([0, 30, 60, 200]))
def test_clearing_again_changes_nothing(
    messages: list[Fields], clearing: Clearing, limit: int
) -> None:
    once = clear(conversation(*messages), clearing, limit)

    assert clear(once, clearing, limit) is once


@given(busy_histories, clearings, clearings, st.sampled_from([60, 200]))
def test_clearing_piece_by_piece_is_clearing_at_once(
    messages: list[Fields], first: Clearing, second: Clearing, limit: int
) -> None:
    """BUGS 21."""
    before = conversation(*messages)
    first = first | Clearing()  # as decisions are made: no place both cleared and shortened
    second = Clearing(second.results, second.shortened - first.results, second.media)

    pieces = clear(clear(before, first, limit), second, limit)

    assert _json(pieces.fields) == _json(clear(before, first | second, limit).fields)


@given(busy_histories, clearings, st.lists(busy_messages, max_size=3))
def test_a_longer_history_begins_with_the_same_bytes(
    messages: list[Fields], clearing: Clearing, more: list[Fields]
) -> None:
    """BUGS 21."""
    inside = Clearing(
        *(
            frozenset(place for place in places if place.origin < len(messages))
            for places in (clearing.results, clearing.shortened, clearing.media)
        )
    )
    short = clear(conversation(*messages), inside, LIMIT)
    grown = clear(conversation(*messages, *more), inside, LIMIT)

    assert _json(grown.fields)[: len(messages)] == _json(short.fields)
    assert _json(grown.fields)[len(messages) :] == _json(more)


@given(busy_histories, clearings)
def test_nothing_grows_and_the_clients_messages_stay_as_they_are(
    messages: list[Fields], clearing: Clearing
) -> None:
    given = copy.deepcopy(messages)
    before = conversation(*messages)

    after = clear(before, clearing, LIMIT)

    assert messages == given
    assert all(new <= old for new, old in zip(_chars(after), _chars(before), strict=True))
    for new, old in zip(after.fields, messages, strict=True):
        assert {**new, "content": None} == {**old, "content": None}
        assert type(new.get("content")) is type(old.get("content"))


@pytest.mark.parametrize("messages", RECORDED.values(), ids=list(RECORDED))
def test_pairs_hold_in_recorded_histories(messages: list[Fields]) -> None:
    """BUGS 1 and 2."""
    everything = at(*range(len(messages)))
    before = conversation(*messages)

    after = clear(before, Clearing(everything, everything, everything), 0)

    assert after.groups == before.groups
    assert [message.answers for message in after.messages] == [
        message.answers for message in before.messages
    ]
