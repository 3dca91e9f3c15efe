"""How much of a conversation says something new: repeated talk needs no room in a fold."""

from collections.abc import Sequence

from chat_proxy.compaction.planner.news import news_sizes
from chat_proxy.compaction.planner.tail import fold_end, wanted_room
from tests.unit.chat.shapes import Fields, conversation, result, says, user
from tests.unit.compaction.planner.views import BUDGET, talk, view_of

LOADER = "The loader reads its table once.\n"


def news_of(*messages: Fields) -> Sequence[int]:
    return list(news_sizes(conversation(*messages).messages, [100] * len(messages)))


def test_what_was_said_before_is_no_news() -> None:
    assert news_of(user(LOADER), says(LOADER)) == [100, 0]


def test_a_sentence_with_one_new_word_is_news_as_a_whole() -> None:
    assert news_of(user(LOADER), says(LOADER + "The loader reads its table daily.\n")) == [100, 50]


def test_a_number_is_news_and_the_same_words_in_other_order_are_not() -> None:
    given = user("port is 8080"), says("8080 is port"), says("port is 8081")

    assert news_of(*given) == [100, 0, 100]


def test_a_language_without_spaces_has_news_too() -> None:
    given = user("加载器读取表。"), says("加载器读取表。"), says("数据库很慢。")

    assert news_of(*given) == [100, 0, 100]


def test_lines_of_a_result_that_differ_in_their_numbers_are_said_once() -> None:
    log = "\n".join(f"12:00:{second:02} GET /item/{second} 200" for second in range(50))
    report = "exit 0\nno test failed\ncoverage is fine\n"

    assert news_of(result("a", log), result("b", log), result("c", report)) == [2, 0, 100]


def test_a_message_without_a_text_has_none() -> None:
    assert news_of(user(""), says(None)) == [0, 0]


def test_a_fold_of_repeated_talk_leaves_its_room_to_the_tail() -> None:
    """Otherwise the prompt would end far below its target: nothing could fill the fold."""

    repeated = view_of(*[user("Go on."), says(LOADER * 30)] * 12, user("now"))
    telling = view_of(*talk(*[500] * 12), user("now"))

    assert wanted_room(repeated, 20, 6_000) < wanted_room(telling, 20, 6_000)
    assert fold_end(repeated, BUDGET, 6_000) < fold_end(telling, BUDGET, 6_000)
