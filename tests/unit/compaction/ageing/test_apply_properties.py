"""What holds for any history and any treatments."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.ageing.apply import Where, age, nowhere
from chat_proxy.compaction.ageing.treatments import Treatments
from tests.unit.chat.shapes import RECORDED, Fields, conversation
from tests.unit.compaction.examples import at, busy_histories, busy_messages, sized, treatments

places: st.SearchStrategy[Where] = st.sampled_from([nowhere, lambda _, __: " [offload id: 0123]"])


def dumped(messages: Any) -> list[str]:
    return [json.dumps(message) for message in messages]


def chars(given: Conversation) -> list[int]:
    """Return the texts' length, without notes of media: media are larger than their notes."""
    return [
        sum(len(words) for _, words in message.pieces() if "media cleared" not in words)
        for message in given.messages
    ]


@given(busy_histories, treatments, places)
def test_ageing_again_changes_nothing(
    messages: list[Fields], given: Treatments, where: Where
) -> None:
    once = age(conversation(*messages), given, where)

    assert dumped(age(once, given, where).fields) == dumped(once.fields)


@given(busy_histories, treatments, treatments)
def test_ageing_piece_by_piece_is_ageing_at_once(
    messages: list[Fields], first: Treatments, second: Treatments
) -> None:
    """BUGS 21: media after results, as the steps of a request are."""
    before = conversation(*messages)
    both = first | second
    results = Treatments(both.lines, both.short, both.calls)

    pieces = age(age(before, results), Treatments(media=both.media))

    assert dumped(pieces.fields) == dumped(age(before, both).fields)


@given(busy_histories, treatments, st.lists(busy_messages, max_size=3))
def test_a_longer_history_begins_with_the_same_bytes(
    messages: list[Fields], given: Treatments, more: list[Fields]
) -> None:
    """BUGS 21"""
    later = given.from_origin(len(messages))
    inside = Treatments(
        given.lines - later.lines,
        {place: size for place, size in given.short.items() if place not in later.short},
        {place: size for place, size in given.calls.items() if place not in later.calls},
        given.media - later.media,
    )
    short = age(conversation(*messages), inside)
    grown = age(conversation(*messages, *more), inside)

    assert dumped(grown.fields)[: len(messages)] == dumped(short.fields)
    assert dumped(grown.fields)[len(messages) :] == dumped(more)


@given(busy_histories, treatments, places)
def test_nothing_grows_and_the_clients_messages_stay_as_they_are(
    messages: list[Fields], given: Treatments, where: Where
) -> None:
    untouched = copy.deepcopy(messages)
    before = conversation(*messages)

    after = age(before, given, where)

    assert messages == untouched
    assert all(new <= old for new, old in zip(chars(after), chars(before), strict=True))
    for new, old in zip(after.fields, messages, strict=True):
        assert list(new) == list(old)
        assert type(new.get("content")) is type(old.get("content"))
        if "tool_calls" not in old and "function_call" not in old:
            assert {**new, "content": None} == {**old, "content": None}


@given(busy_histories, treatments)
def test_pairs_hold(messages: list[Fields], given: Treatments) -> None:
    """BUGS 1 and 2"""
    before = conversation(*messages)

    after = age(before, given)

    assert after.groups == before.groups
    assert [it.answers for it in after.messages] == [it.answers for it in before.messages]


@pytest.mark.parametrize("messages", RECORDED.values(), ids=list(RECORDED))
def test_pairs_hold_in_recorded_histories(messages: list[Fields]) -> None:
    """BUGS 1 and 2"""
    everything = range(len(messages))
    before = conversation(*messages)

    for everywhere in (
        Treatments(lines=at(*everything)),
        Treatments(short=sized(0, *everything), calls=sized(0, *everything)),
    ):
        after = age(before, everywhere)

        assert after.groups == before.groups
        assert [it.answers for it in after.messages] == [it.answers for it in before.messages]
