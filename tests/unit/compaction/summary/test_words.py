"""The user's own messages, word for word, as far as their share goes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.message import Message
from chat_proxy.compaction.summary.words import OwnWords, own_words, user_text
from tests.unit.chat.shapes import PIXEL, SURROGATE, image, odd_messages, text, user


def count(words: str) -> int:
    return len(words.split())


def test_the_newest_have_room_first_and_come_oldest_first() -> None:
    """BUGS 31"""
    said = ["a b c", "d e f", "g"]

    assert own_words(said, 100, count) == OwnWords(("a b c", "d e f", "g"), 0)
    assert own_words(said, 28, count) == OwnWords(("d e f", "g"), 1)
    assert own_words(said, 0, count) == OwnWords((), 3)
    assert own_words([], 100, count) == OwnWords((), 0)


def test_a_short_rule_is_kept_though_a_longer_message_after_it_has_no_room() -> None:
    """BUGS 31"""
    assert own_words(["use tabs", "word " * 100], 60, count) == OwnWords(("use tabs",), 1)


def test_a_message_longer_than_its_share_is_cut_in_its_middle() -> None:
    long = "first " + "word " * 5_000 + "last"

    kept = own_words(["older", long], 600, count)

    older, cut = kept.texts
    assert (older, kept.left_out) == ("older", 0)
    assert 150 <= count(cut) <= 240
    assert cut.startswith("first ")
    assert cut.endswith(" last")
    omitted = re.search(r"\n\[Message cut: omitted ([0-9]+) chars\]\n", cut)
    assert omitted is not None
    assert len(cut) - len(omitted[0]) + int(omitted[1]) == len(long)


def test_one_paste_does_not_take_the_room_of_all_others() -> None:
    said = [f"message number {number}" for number in range(20)]

    kept = own_words([*said, "word " * 5_000], 1_000, count)

    assert kept.texts[:-1] == tuple(said)


def test_a_single_message_may_have_all_the_room() -> None:
    assert count(own_words(["word " * 5_000], 1_000, count).texts[0]) > 700


def test_a_text_that_no_cut_makes_small_enough_is_left_out() -> None:
    assert own_words(["word " * 1_000], 500, lambda _: 1_000) == OwnWords((), 1)


def test_media_become_placeholders_and_only_the_users_own_text_counts() -> None:
    """BUGS 16, BUGS 39"""
    nested = {"type": "tool_result", "content": [text("a tool's words")]}
    message = Message(user([text("look"), image(), None, f"bare {PIXEL}", nested]))

    assert user_text(message) == "look\n[image: image/png]\nbare [image: image/png]"


@pytest.mark.parametrize("content", [None, "", "  \n", []])
def test_nothing_said_is_an_empty_text(content: object) -> None:
    assert user_text(Message(user(content))) == ""


@given(odd_messages)
def test_any_message_has_a_text_without_base64(fields: dict[str, object]) -> None:
    said = user_text(Message({**fields, "role": "user"}))

    assert PIXEL[30:60] not in said


@given(
    st.lists(st.sampled_from(["a", "b c", "word " * 50, "word " * 900, SURROGATE]), max_size=8),
    st.integers(-5, 2_000),
)
def test_what_is_kept_fits_and_nothing_is_forgotten_silently(said: list[str], room: int) -> None:
    kept = own_words(said, room, count)

    assert sum(map(count, kept.texts)) + 12 * len(kept.texts) <= max(0, room)
    assert kept.left_out == len(said) - len(kept.texts)
    assert kept == own_words(said, room, count)
