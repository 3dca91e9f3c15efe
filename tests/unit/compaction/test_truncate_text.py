from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chat_proxy.compaction.truncate_text import (
    LineNote,
    Note,
    byte_count,
    exceeds,
    file_note,
    line_note,
    omission_note,
    place_in,
    shortened,
    shortened_with_line,
)

texts = st.text("ab1\n é漢😀\ud83d\ude00", max_size=160)
limits = st.integers(0, 200)


def short(omitted: int) -> str:
    return f"[{omitted}]"


def long(omitted: int) -> str:
    return f"[… {omitted} letters are gone …]"


def plain(omitted: int) -> str:
    return omission_note(omitted, None)


def with_id(omitted: int) -> str:
    return omission_note(omitted, "tr_0123456789abcdef")


notes = st.sampled_from([short, long, plain, with_id])


def test_the_note_says_how_much_is_gone_and_where_it_is() -> None:
    assert omission_note(12, None) == "[Tool output truncated: omitted 12 chars]"
    assert omission_note(12, "x1") == "[Tool output truncated: omitted 12 chars] [offload id: x1]"


def test_a_text_at_the_limit_is_the_very_same() -> None:
    text = "é" * 50

    assert shortened(text, 100, plain) is text


def test_head_and_tail_stay_and_the_note_stands_on_its_own_line() -> None:
    text = "a" * 100 + "b" * 100

    outcome = shortened(text, 101, plain)

    head, note, tail = outcome.split("\n")
    assert (head, tail) == ("a" * 28, "b" * 29)
    assert note == "[Tool output truncated: omitted 143 chars]"


def test_a_cut_is_moved_to_the_border_of_a_line_when_one_is_near() -> None:
    lines = [f"line {number:04}" for number in range(1000)]

    outcome = shortened("\n".join(lines), 1000, plain).split("\n")

    note = next(line for line in outcome if line.startswith("["))
    where = outcome.index(note)
    assert outcome[:where] == lines[:where]
    assert outcome[where + 1 :] == lines[-(len(outcome) - where - 1) :]
    assert len(outcome) > 90


def test_a_border_far_away_is_no_reason_to_lose_text() -> None:
    text = "a\n" + "b" * 10_000 + "\na"

    assert len(shortened(text, 2_000, plain)) > 1_990


def test_a_limit_below_the_note_leaves_the_note_alone() -> None:
    assert shortened("a" * 100, 10, plain) == "[Tool output truncated: omitted 100 chars]"


def test_a_text_shorter_than_the_note_stays() -> None:
    text = "a" * 40

    assert shortened(text, 10, plain) is text


def test_a_text_of_few_wide_letters_is_not_made_longer_in_letters() -> None:
    text = "😀" * 60

    outcome = shortened(text, 200, plain)

    assert len(outcome) <= 60
    assert "omitted 43 chars" in outcome


def test_lone_surrogates_survive() -> None:
    """FAULTS A4."""
    text = "\ud83d" * 100

    outcome = shortened(text, 200, plain)

    assert outcome.startswith("\ud83d" * 26 + "\n[")
    assert outcome.endswith("]\n" + "\ud83d" * 26)


@pytest.mark.parametrize(
    ("text", "limit", "over"),
    [("a" * 10, 10, False), ("a" * 11, 10, True), ("é" * 5, 10, False), ("é" * 6, 10, True)],
)
def test_a_text_exceeds_a_limit_by_its_bytes(text: str, limit: int, over: bool) -> None:
    assert exceeds(text, limit) is over


@given(texts, limits, notes)
def test_nothing_comes_back_longer(text: str, limit: int, note: Note) -> None:
    outcome = shortened(text, limit, note)

    assert len(outcome) <= len(text)
    assert byte_count(outcome) <= byte_count(text)


@given(texts, limits, notes)
def test_the_limit_holds_with_the_note_in_it_or_only_a_note_is_left(
    text: str, limit: int, note: Note
) -> None:
    outcome = shortened(text, limit, note)

    assert byte_count(outcome) <= limit or outcome in (text, note(len(text)))
    if byte_count(outcome) > limit and outcome == text:
        assert len(text) <= len(note(len(text))) + 20


@given(texts, limits, notes)
def test_the_note_counts_exactly_what_is_gone(text: str, limit: int, note: Note) -> None:
    outcome = shortened(text, limit, note)

    assert outcome == text or any(
        _rebuilt(text, note, head, tail) == outcome
        for head in range(len(text) + 1)
        for tail in range(len(text) - head + 1)
        if head + tail <= len(outcome)
    )


def _rebuilt(text: str, note: Note, head: int, tail: int) -> str:
    """The text with so many letters kept at both ends."""
    lines = [text[:head].removesuffix("\n")] if head else []
    lines.append(note(len(text) - head - tail))
    if tail:
        lines.append(text[len(text) - tail :])
    return "\n".join(lines)


@given(texts, limits, notes, notes)
@example("a" * 150, 5, with_id, plain)
@example("a" * 150, 5, plain, with_id)
def test_cutting_twice_is_cutting_once(text: str, limit: int, note: Note, other: Note) -> None:
    """A client that sends our own cut text back gets it through as it is."""
    once = shortened(text, limit, note)

    assert shortened(once, limit, note) is once
    if note in (plain, with_id) or byte_count(once) <= limit:
        again = shortened(once, limit, other)
        assert again is once or once is text


@given(texts, limits)
def test_the_same_text_is_cut_the_same_way(text: str, limit: int) -> None:
    assert shortened(text, limit, plain) == shortened("".join(list(text)), limit, plain)


def with_line(omitted: int, line: int) -> str:
    return line_note(omitted, "tr_0123456789abcdef", line)


def with_file(omitted: int, line: int) -> str:
    return file_note(omitted, "data/tool_result/ab.txt", line)


def line_of(text: str) -> Callable[[int], int]:
    return lambda position: 1 + text.count("\n", 0, position)


def cut_with_line(text: str, limit: int, note: LineNote) -> str:
    return shortened_with_line(text, limit, note, line_of(text))


line_notes = pytest.mark.parametrize(
    ("note", "words"), [(with_file, "go on from line "), (with_line, "read on from line ")]
)


@line_notes
def test_a_note_names_the_line_from_which_to_read_on(note: LineNote, words: str) -> None:
    text = "".join(f"line {n}\n" for n in range(1, 2_001))

    cut = cut_with_line(text, 500, note)

    head, _, rest = cut.partition("[Tool output truncated: ")
    line = int(rest.partition(words)[2].partition("]")[0])
    assert len(cut) <= 500
    assert head.endswith(f"line {line - 1}\n")
    assert cut_with_line(cut, 500, note) is cut


@line_notes
def test_in_a_line_that_is_cut_one_goes_on_from_that_line(note: LineNote, words: str) -> None:
    text = "first\n" + "x" * 5_000

    cut = cut_with_line(text, 300, note)

    assert f"{words}2]" in cut
    assert len(cut) <= 300
    assert cut_with_line("short", 300, note) == "short"


@line_notes
def test_where_only_a_note_is_left_one_reads_from_the_first_line(
    note: LineNote, words: str
) -> None:
    text = "line\n" * 2_000

    cut = cut_with_line(text, 10, note)

    assert cut == note(len(text), 1)
    assert cut_with_line(cut, 10, note) is cut


def test_the_file_or_the_offload_id_stands_before_the_line() -> None:
    assert with_file(7, 3) == (
        "[Tool output truncated: omitted 7 chars] "
        "[full text: data/tool_result/ab.txt, go on from line 3]"
    )
    assert with_line(7, 3) == (
        "[Tool output truncated: omitted 7 chars] "
        "[offload id: tr_0123456789abcdef] [read on from line 3]"
    )


@given(texts, limits, st.sampled_from([with_line, with_file]))
def test_a_text_with_a_line_in_its_note_is_never_longer_and_is_cut_once(
    text: str, limit: int, note: LineNote
) -> None:
    once = cut_with_line(text, limit, note)

    assert len(once) <= len(text)
    assert byte_count(once) <= byte_count(text)
    assert cut_with_line(once, limit, note) is once


@pytest.mark.parametrize(
    ("place", "is_ours"),
    [
        (f" [offload id: {'ab' * 16}]", True),
        (f" [full text: /data/tool_result/{'ab' * 16}.txt]", True),
        (f" [full text: /data/tool_result/{'ab' * 16}.txt, go on from line 12]", True),
        (" [full text: /etc/passwd]", False),
        (" [offload id: ../../x]", False),
        ("", False),
    ],
)
def test_the_place_of_a_whole_text_is_read_from_our_note_only(place: str, is_ours: bool) -> None:
    note = f"head\n[Tool output truncated: omitted 9 chars]{place}\ntail"

    assert place_in(note) == (place if is_ours else "")
    assert place_in(f"head{place}") == ""
