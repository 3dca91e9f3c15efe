import hmac
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.compaction.summary.fold import fold
from chat_proxy.compaction.summary.fold_text import FoldContent, fold_text
from chat_proxy.compaction.summary.marker import (
    Returned,
    add_marker,
    find_returned,
    signed_text,
)
from tests.unit.chat.shapes import (
    SURROGATE,
    conversation,
    histories,
    image,
    says,
    system,
    text,
    user,
)


def sign(message: bytes) -> str:
    return hmac.new(b"secret", message, sha256).hexdigest()[:32]


def sign_of_another(message: bytes) -> str:
    return hmac.new(b"other", message, sha256).hexdigest()[:32]


def test_a_marker_is_the_last_line_of_a_text() -> None:
    marked = add_marker("a summary", 37, sign)

    mac = sign(signed_text("a summary", 37))
    assert marked == f"a summary\n[chat-proxy checkpoint covered=37 mac={mac}]"


def test_no_two_texts_and_counts_are_signed_alike() -> None:
    assert signed_text("1x", 1) != signed_text("x", 11)
    assert signed_text(SURROGATE, 1) != signed_text("half ", 1)


@pytest.mark.parametrize("content", [str, lambda words: [text(words)]])
def test_a_folded_message_that_comes_back_is_recognised(content: Any) -> None:
    marked = add_marker("a summary", 37, sign)

    talk = conversation(system(), user(content(marked)), says(), user())

    assert find_returned(talk, sign) == Returned(index=1, covered=37, text="a summary")


def test_the_newest_of_several_counts() -> None:
    old, new = add_marker("old", 5, sign), add_marker("new", 9, sign)

    found = find_returned(conversation(user(old), says(), user(new), says(), user()), sign)

    assert found == Returned(2, 9, "new")


def test_a_forged_marker_does_not_hide_an_earlier_true_one() -> None:
    true, forged = add_marker("true", 5, sign), add_marker("forged", 9, sign_of_another)

    found = find_returned(conversation(user(true), says(), user(forged)), sign)

    assert found == Returned(0, 5, "true")


_MARKED = add_marker("a summary", 37, sign)


@pytest.mark.parametrize(
    "message",
    [
        user(_MARKED.replace("summary", "sumMary")),
        user(_MARKED.replace("=37", "=38")),
        user(_MARKED.replace("=37", "=037")),
        user(add_marker("a summary", 37, sign_of_another)),
        user(f"{_MARKED} and more"),
        user(f"{_MARKED}\n"),
        user(_MARKED.removeprefix("a summary\n")),
        user([text(_MARKED), text("more")]),
        user([image()]),
        user(["bare"]),
        user([]),
        user(None),
        says(_MARKED),
        system(_MARKED),
    ],
)
def test_what_was_changed_or_is_not_ours_is_plain_text(message: dict[str, Any]) -> None:
    """FAULTS C20"""
    assert find_returned(conversation(message, user()), sign) is None


def test_a_marker_that_only_the_user_wrote_is_never_signed_for() -> None:
    asked: list[bytes] = []

    def counting(message: bytes) -> str:
        asked.append(message)
        return sign(message)

    talk = conversation(*[user("x" * 1000), says()] * 50)

    assert find_returned(talk, counting) is None
    assert asked == []


@given(st.text(), st.integers(0, 999_999_999), histories)
def test_every_folded_text_is_found_again(
    words: str, covered: int, history: list[dict[str, Any]]
) -> None:
    text = fold_text(FoldContent([], {}, words, (words,)), 10_000, len)
    talk = conversation(*history)

    folded = fold(talk, talk.instructions, add_marker(text, covered, sign))

    found = find_returned(folded, sign)
    assert found == Returned(talk.instructions, covered, text)
