"""A summary in another script than the conversation's is recognised."""

import time

import pytest

from chat_proxy.compaction.summary.validation.language import has_foreign_script
from tests.unit.compaction.summary.validation.examples import EXAMPLES, task_of

DIALOGUES = {name: task_of(*example.messages).dialogue for name, example in EXAMPLES.items()}
ENGLISH, CHINESE = EXAMPLES["talk"], EXAMPLES["Chinese talk"]
OTHERS = {
    "Russian": ("Мы переносим сервер на новую площадку в пятницу вечером. " * 3, "кириллица " * 9),
    "Greek": ("Θα πάμε στη Θεσσαλονίκη τον Ιούνιο με τα παιδιά. " * 3, "ταξίδι στην πόλη " * 9),
    "Arabic": ("نسافر إلى القاهرة في الصيف مع العائلة كلها. " * 3, "السفر مع العائلة " * 9),
    "Hebrew": ("אנחנו נוסעים לחיפה ביום שלישי עם הילדים. " * 3, "נסיעה עם הילדים " * 9),
    "Hindi": ("हम अगले महीने परिवार के साथ जयपुर जा रहे हैं। " * 3, "परिवार के साथ यात्रा " * 9),
    "Thai": ("เดือนหน้าเราจะไปเชียงใหม่กับครอบครัว " * 3, "เที่ยวกับครอบครัว " * 9),
    "Korean": ("다음 달에 가족과 함께 부산으로 여행을 갑니다. " * 3, "가족 여행 부산 " * 9),
    "Japanese": ("来月は家族といっしょに京都へ旅行に行きます。" * 3, "家族旅行について" * 9),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_summary_in_the_conversation_s_language_is_not_foreign(name: str) -> None:
    assert not has_foreign_script(EXAMPLES[name].good, DIALOGUES[name])


def test_an_english_summary_of_a_chinese_talk_is_foreign() -> None:
    assert has_foreign_script(ENGLISH.good, DIALOGUES["Chinese talk"])


@pytest.mark.parametrize("name", ["coding", "talk", "German talk", "German coding"])
def test_a_chinese_summary_of_a_latin_conversation_is_foreign(name: str) -> None:
    assert has_foreign_script(CHINESE.good, DIALOGUES[name])


@pytest.mark.parametrize("name", OTHERS)
def test_every_script_is_told_from_latin(name: str) -> None:
    dialogue, summary = OTHERS[name]

    assert not has_foreign_script(summary, dialogue)
    assert has_foreign_script(summary, DIALOGUES["talk"])
    assert has_foreign_script(ENGLISH.good, dialogue)


def test_code_and_paths_make_no_conversation_english() -> None:
    """Code is in Latin letters in every conversation."""
    code = "```python\ndef load_rows(path): return list(csv.reader(open(path)))\n```\n"
    dialogue = (
        DIALOGUES["Chinese talk"] + code * 40 + " 请看 src/app/main.py 和 `the config file`。"
    )

    assert has_foreign_script(ENGLISH.good, dialogue)
    assert not has_foreign_script(CHINESE.good, dialogue)


def test_paths_in_a_chinese_summary_make_it_not_english() -> None:
    summary = CHINESE.good + "\n- src/components/dashboard/widgets/LineChart.tsx" * 20

    assert not has_foreign_script(summary, DIALOGUES["Chinese talk"])


def test_a_mixed_conversation_may_be_summarised_in_either_script() -> None:
    mixed = DIALOGUES["Chinese talk"] + DIALOGUES["talk"]

    assert not has_foreign_script(ENGLISH.good, mixed)
    assert not has_foreign_script(CHINESE.good, mixed)


@pytest.mark.parametrize("dialogue", ["", "修复登录错误", "```\ncode\n```"])
def test_a_few_words_are_no_evidence(dialogue: str) -> None:
    assert not has_foreign_script(ENGLISH.good, dialogue)


def test_a_summary_of_names_and_paths_alone_has_no_script() -> None:
    assert not has_foreign_script("- src/main.py, `make check`, ok", DIALOGUES["Chinese talk"])


def test_a_long_dialogue_is_sampled_from_its_beginning_to_its_end() -> None:
    dialogue = DIALOGUES["talk"] * 2_000 + DIALOGUES["Chinese talk"] * 1_500
    started = time.process_time()

    assert not has_foreign_script(CHINESE.good, dialogue)

    assert time.process_time() - started < 0.2
    assert has_foreign_script(CHINESE.good, DIALOGUES["talk"] * 2_000)


@pytest.mark.parametrize("bomb", ["`", "```", "a.", "<", "`a`"])
def test_a_text_made_to_hurt_takes_no_time(bomb: str) -> None:
    long = bomb * (200_000 // len(bomb))
    started = time.process_time()

    has_foreign_script(long, long)

    assert time.process_time() - started < 1
