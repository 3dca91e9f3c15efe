"""The sentences in which a user demands something that must not be forgotten."""

import time

import pytest

from chat_proxy.compaction.summary.notes.demands import LONGEST_DEMAND, demands_in
from chat_proxy.compaction.summary.notes.telegraphic import sentences_of


def demands(text: str) -> list[str]:
    return list(demands_in(sentences_of(text)).values())


@pytest.mark.parametrize(
    "demand",
    [
        "Never touch the main branch.",
        "Please never touch the main branch.",
        "Always answer briefly.",
        "You must ask before you delete anything!",
        "The file must be valid JSON.",
        "It must be done by hand.",
        "Please don\u2019t use tabs",
        "Also, do not deploy on Fridays.",
        "From now on write in French.",
        "I prefer short answers.",
        "Only use the staging database!",
        "Use tabs, not blanks.",
        "The budget is at most 500 euros.",
        "Du darfst das nie löschen, es muss bleiben.",
        "Bitte antworte auf Deutsch.",
        "Ich bin allergisch gegen Nüsse.",
        "Ne touche jamais la branche main.",
        "Il faut demander avant.",
        "Siempre responde en español.",
        "Nunca borres archivos.",
        "Всегда отвечай кратко.",
        "Это нельзя удалять.",
        "必须使用制表符。",
        "不要改动数据库。",
        "我对花生过敏。",
        "タブは使わないでください。",
        "답변은 항상 한국어로 해 주세요.",
    ],
)
def test_a_demand_is_kept_word_for_word_in_any_language(demand: str) -> None:
    """BUGS 31"""
    assert demands(f"{demand}\nThanks a lot.") == [demand]


@pytest.mark.parametrize(
    "told",
    [
        "That is nice with mustard.",
        "I must have been tired.",
        "It must be exciting to see it all come together.",
        "Must be so rewarding!",
        "You must feel at home there.",
        "The old town is a must-see.",
        "We have never been there before.",
        "She always sings.",
        "The cat ate no fish.",
        "Nobody dares to say anything against it.",
        "The light is on 24 hours a day.",
        "We met on 21 June.",
        "The old receipts are no help, because they do not say how many guests came.",
        "You should dance at least once.",
        "It was painted by the sun.",
        "I am Very tired today.",
        "Should I never do that?",
        "Must it be so?",
        "It is commonly done with a trombone.",
        "",
    ],
)
def test_what_only_tells_or_asks_something_is_no_demand(told: str) -> None:
    assert demands(told) == []


@pytest.mark.parametrize(
    "fact",
    [
        "Hi, my name is Ilse Brandvold and I plan a feast.",
        "Hi there, I'm Tobias Renner from Porto.",
        "Ich heiße Jana.",
        "I can't eat gluten.",
        "In the end we decided to hold it in the barn.",
        "We agreed on the blue design.",
        "My husband Tomas eats no meat.",
        "She is vegan, by the way.",
        "Nobody may speak for longer than ten minutes.",
        "By the way, the evening is on Saturday 21 June.",
        "The course starts on the 3rd of May.",
        "The form has to be on his desk by 14 March.",
        "The slides are due on Friday.",
        "Send the form until 17:30.",
        "The report is wanted by 2027-03-14.",
    ],
)
def test_who_the_user_is_and_what_was_decided_for_when_counts_as_a_demand(fact: str) -> None:
    assert demands(f"It is warm. {fact} The cat sleeps.") == [fact]


def test_an_imperative_behind_a_colon_is_a_demand() -> None:
    rule = "A rule for all letters: never give the phone numbers to a company."

    assert demands(rule) == [rule]


def test_a_short_demand_that_refers_back_has_the_sentence_before_it() -> None:
    """The peanuts of issue 20."""
    assert demands("I can't eat peanuts. Please always remember that. Now, soup?") == [
        "I can't eat peanuts. Please always remember that."
    ]


def test_a_demand_that_refers_to_a_demand_takes_it_along() -> None:
    assert demands("Never use port 80. Remember that!") == ["Never use port 80. Remember that!"]


def test_a_long_demand_speaks_for_itself() -> None:
    first = "The tests are slow."
    long = "You must remember that the tests of the billing service are run by the nightly job."

    assert demands(f"{first} {long}") == [long]


def test_a_demand_at_the_very_beginning_refers_to_nothing() -> None:
    assert demands("Remember that!") == ["Remember that!"]


def test_an_endless_demand_is_cut() -> None:
    (found,) = demands("You must stay calm " + "word " * 500)

    assert found.startswith("You must stay calm")
    assert len(found) <= LONGEST_DEMAND


@pytest.mark.parametrize("bomb", ["must ", "and ", "please, ", "必须", "don't ", "1 ", "- "])
def test_hostile_text_takes_no_time(bomb: str) -> None:
    long = bomb * (100_000 // len(bomb))
    started = time.process_time()

    demands(long)
    demands(f"{bomb}.\n" * 5_000)

    assert time.process_time() - started < 1
