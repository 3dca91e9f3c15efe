"""Base64 becomes a note of its size."""

import pytest

from chat_proxy.chat.result_texts import has_base64
from chat_proxy.compaction.remove_base64 import WithoutBase64, base64_note, without_base64
from tests.unit.chat.payloads import ENCODED, PROSE, WITH_BASE64, WITHOUT_BASE64, WRAPPED

NOTE = "[base64 removed: 3001 bytes]"


@pytest.mark.parametrize("name", WITH_BASE64)
def test_a_note_of_the_size_takes_the_place_of_the_base64(name: str) -> None:
    before, payload, after = WITH_BASE64[name]

    outcome = without_base64(f"{PROSE}{before}{payload}{after}")

    assert outcome.text == f"{PROSE}{before}{NOTE}{after}"
    assert base64_note(3_001) == NOTE


@pytest.mark.parametrize("name", WITHOUT_BASE64)
def test_a_text_without_base64_is_the_very_same(name: str) -> None:
    text = f"{PROSE}{WITHOUT_BASE64[name]}"

    assert without_base64(text, lambda _: " [offload id: 1]").text is text


def test_only_the_first_note_says_where_the_full_text_is() -> None:
    text = f"{PROSE}{ENCODED} and {ENCODED}."

    outcome = without_base64(text, lambda _: " [offload id: ab]")

    assert outcome.text == f"{PROSE}{NOTE} [offload id: ab] and {NOTE}."


def test_a_text_that_would_not_become_shorter_stays() -> None:
    text = f"{PROSE}{ENCODED}"

    assert without_base64(text, lambda _: "x" * len(ENCODED)) == WithoutBase64(text)


def test_nothing_more_is_removed_from_the_outcome() -> None:
    for before, payload, after in WITH_BASE64.values():
        text = f"{PROSE}{before}{payload}{after}{payload}{PROSE}"

        once = without_base64(text).text

        assert not has_base64(once)
        assert without_base64(once).text is once


def test_lines_are_counted_as_in_the_full_text() -> None:
    text = f"first\n{WRAPPED}after\nlast\n{WRAPPED}end {PROSE}"

    outcome = without_base64(text)

    for words in ("first", "after", "last", "end", "The tool"):
        expected = 1 + text.count("\n", 0, text.index(words))
        assert outcome.line_at(outcome.text.index(words)) == expected
    assert outcome.line_at(len(outcome.text)) == 1 + text.count("\n")
