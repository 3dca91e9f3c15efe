"""The distinctive words of a text, and how much they weigh."""

import pytest

from chat_proxy.compaction.summary.notes.terms import frequencies, rarity, terms_of


def test_numbers_weigh_more_than_names_and_names_more_than_words() -> None:
    terms = terms_of("Yesterday Melanie bought 12 books")

    assert terms["12"] > terms["melanie"] > terms["books"] == terms["yesterday"] == 1.0


@pytest.mark.parametrize("word", ["the", "and", "nicht", "pour", "with", "it's", "i'm", "ok", "a"])
def test_words_that_say_nothing_are_left_out(word: str) -> None:
    assert terms_of(f"x {word} y") == {}


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("see src/app/main.py:", "src/app/main.py"),
        ("(retry_count_7),", "retry_count_7"),
        ("Caroline's dog", "caroline"),
        ("v1.2.3!", "v1.2.3"),
        ("ops@example.org", "ops@example.org"),
        ("Größe", "größe"),
        ("Москва", "москва"),
        ("id 7", "7"),
    ],
)
def test_a_term_is_a_word_without_the_signs_around_it(text: str, term: str) -> None:
    assert term in terms_of(text)


def test_scripts_without_blanks_are_cut_into_pairs() -> None:
    assert terms_of("北京大学") == {"北京": 1.0, "京大": 1.0, "大学": 1.0}
    assert terms_of("好") == {"好": 1.0}


def test_a_term_is_counted_once_per_document() -> None:
    counts, total = frequencies([terms_of("apple apple pear"), terms_of("apple")])

    assert (counts, total) == ({"apple": 2, "pear": 1}, 2)


def test_a_rare_term_weighs_more() -> None:
    assert rarity(1, 100) > rarity(2, 100) > rarity(100, 100) > 0
