"""Summaries are about their conversation, and invented ones are recognised."""

import time

import pytest

from chat_proxy.compaction.summary.validation.grounding import is_grounded, known_share
from tests.unit.compaction.summary.validation.examples import CODING, EXAMPLES, TALK, task_of

SPANS = {name: task_of(*example.messages).span_text for name, example in EXAMPLES.items()}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_good_summary_in_its_own_words_is_grounded(name: str) -> None:
    assert is_grounded(EXAMPLES[name].good, SPANS[name])


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_invented_summary_in_the_same_language_is_not(name: str) -> None:
    assert not is_grounded(EXAMPLES[name].invented, SPANS[name])


@pytest.mark.parametrize("other", EXAMPLES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_summary_of_another_conversation_is_not(name: str, other: str) -> None:
    assert is_grounded(EXAMPLES[other].good, SPANS[name]) == (name == other)


def test_a_long_conversation_grounds_no_invention() -> None:
    """A long text has many common words by chance."""
    notes = "We went through the plan again: keep the store, review the page, ask the customer. "
    span = SPANS["coding"] + notes * 1_000

    assert is_grounded(CODING.good, span)
    assert not is_grounded(CODING.invented, span)


def test_other_forms_of_a_word_are_known() -> None:
    assert is_grounded("Deploying configurations", "deploy the configuration")


@pytest.mark.parametrize(
    ("summary", "source"),
    [
        ("Проверил настройки сервера и базы", "Проверь, пожалуйста, настройку сервера и базу."),
        ("ผู้ใช้อยากไปเที่ยวเชียงใหม่", "ฉันอยากไปเที่ยวเชียงใหม่เดือนหน้า"),
        ("उपयोगकर्ता दिल्ली से मुंबई जाना चाहता है", "मुझे दिल्ली से मुंबई जाना है, कल सुबह।"),
        ("يريد المستخدم السفر إلى القاهرة", "أريد السفر الى القاهرة في الصيف"),
        ("사용자는 부산으로 여행을 가려고 한다", "다음 주에 부산 여행을 가고 싶어요."),
        ("ユーザーは京都へ旅行したい", "来月京都へ旅行したいです。"),
    ],
)
def test_words_are_compared_in_any_script(summary: str, source: str) -> None:
    assert is_grounded(summary, source)
    assert not is_grounded(summary, "The weather is nice. 天気。 Погода. อากาศ.")


def test_a_few_computed_numbers_and_names_do_no_harm() -> None:
    more = "\n- 17 messages, roughly 42 minutes, see RFC 4180 and Python 3.11"

    assert is_grounded(CODING.good + more, SPANS["coding"])


@pytest.mark.parametrize("text", ["", "- 1, 2, 3", "¯\\_(ツ)_/¯"])
def test_where_there_is_nothing_to_compare_nothing_is_invented(text: str) -> None:
    assert is_grounded(text, "anything")


def test_the_share_of_a_text_without_long_words_is_that_of_its_short_ones() -> None:
    assert known_share("Fix CI", "please fix it") == 0.5


@pytest.mark.parametrize("bomb", ["a", "a_", "a/", "Word ", "字", "ก", "1."])
def test_a_text_made_to_hurt_takes_no_time(bomb: str) -> None:
    long = bomb * (200_000 // len(bomb))
    started = time.process_time()

    is_grounded(long, long)

    assert time.process_time() - started < 1


def test_a_megabyte_is_searched_in_a_moment() -> None:
    span = (SPANS["talk"] + SPANS["Chinese talk"]) * 1_200
    assert len(span) > 1_000_000
    started = time.process_time()

    assert is_grounded(TALK.good * 20, span)

    assert time.process_time() - started < 0.5
