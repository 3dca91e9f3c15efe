"""Sentences without their fillers: shorter, with the same meaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.compaction.summary.notes.telegraphic import sentences_of, telegraphic


@pytest.mark.parametrize(
    ("sentence", "short"),
    [
        ("I have just moved to Berlin with my sister.", "moved Berlin sister."),
        ("It is really very cold in the kitchen, so we left.", "cold kitchen, left."),
        ("That\u2019s great, I\u2019ll be there on 3 May!", "3 May!"),
    ],
)
def test_fillers_go(sentence: str, short: str) -> None:
    assert telegraphic(sentence) == short


def test_a_limit_is_still_a_limit() -> None:
    assert telegraphic("we must not take more than 3,600 watts") == "must not take over 3,600 watts"


@pytest.mark.parametrize(
    "word", ["not", "no", "never", "without", "unless", "if", "or", "but", "nobody", "cannot"]
)
def test_a_word_that_turns_the_meaning_stays(word: str) -> None:
    assert word in telegraphic(f"we would like to have it {word} the others").split()


@pytest.mark.parametrize(
    "text",
    [
        "`the` code of a function is here",
        "def main(): return the",
        "Der Zug ist um 9 Uhr da.",
        "这是一个句子。",
        "/etc/nginx/nginx.conf",
        "OK",
        "",
    ],
)
def test_code_and_other_languages_stay(text: str) -> None:
    assert telegraphic(text) == text


def test_the_end_of_a_sentence_stays() -> None:
    assert telegraphic("the train leaves at nine for us.").endswith(".")


def test_sentences_are_found_in_prose_lists_and_other_scripts() -> None:
    text = "One is here. Two! Is it? Three\n\n- four\n五是。六是\uff01七"

    assert sentences_of(text) == [
        "One is here.",
        "Two!",
        "Is it?",
        "Three",
        "- four",
        "五是。",
        "六是\uff01",
        "七",
    ]


def test_numbers_and_names_with_points_are_not_divided() -> None:
    assert sentences_of("See v1.2.3 of main.py at 3.30 Uhr") == [
        "See v1.2.3 of main.py at 3.30 Uhr"
    ]


@given(st.text(alphabet="the a. I not!\n?é日", max_size=80))
def test_nothing_is_added(text: str) -> None:
    for sentence in sentences_of(text):
        assert sentence.strip() == sentence != ""
        assert len(telegraphic(sentence)) <= len(sentence)


@pytest.mark.parametrize("title", ['"The Name of the Wind"', "\u201cOf Mice and Men\u201d"])
def test_a_title_in_quotes_keeps_its_small_words(title: str) -> None:
    assert telegraphic(f"I have just read {title}, and it is great.") == f"read {title},"
