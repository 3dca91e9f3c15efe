"""The chat that a small model is driven with."""

import pytest

from tools.small_model.reworded import REWORDED, REWORDED_FACTS
from tools.small_model.story import FACTS, USER, Fact


def test_the_user_speaks_28_times_and_states_14_facts() -> None:
    assert len(USER) == 28
    assert len({fact.kind for fact in FACTS}) == len(FACTS) == 14


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.kind)
def test_each_fact_is_stated_in_its_turn_and_in_no_other(fact: Fact) -> None:
    stated = [number for number, text in enumerate(USER, 1) if fact.is_in([text])]

    assert stated == [fact.turn]


@pytest.mark.parametrize("fact", REWORDED_FACTS, ids=lambda fact: fact.kind)
def test_each_other_fact_stands_in_the_place_of_one_of_the_story(fact: Fact) -> None:
    stated = [number for number, text in enumerate(REWORDED, 1) if fact.is_in([text])]

    assert stated == [fact.turn]
    assert not fact.is_in(USER)


def test_the_other_words_have_none_of_the_story_s_facts() -> None:
    assert [fact.kind for fact in FACTS if fact.is_in(REWORDED)] == []
    assert [fact.turn for fact in REWORDED_FACTS] == [fact.turn for fact in FACTS]


def test_the_facts_are_told_long_before_the_end() -> None:
    assert max(fact.turn for fact in FACTS) <= len(USER) - 10


def test_a_fact_is_known_by_all_its_words_in_one_line() -> None:
    fact = Fact("budget", 1, ("4,350", "euros"))

    assert fact.is_in(["Hello", "#3 user: 4,350 EUROS everything"])
    assert not fact.is_in(["4,350\neuros"])
    assert not fact.is_in(["4,350", "euros"])
    assert not fact.is_in(["many euros"])
