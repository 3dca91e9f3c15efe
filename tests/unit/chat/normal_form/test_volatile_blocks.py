"""Blocks that come and go are removed from a text, and nothing else is."""

from time import thread_time

import pytest

from chat_proxy.chat.normal_form.volatile_blocks import VolatileBlocks

BLOCKS = VolatileBlocks(("env", "environment_details", "system-reminder"))
MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("no block", "no block"),
        ("a<env>x</env>b", "ab"),
        ("a<ENV>x</Env>b", "ab"),
        ('a<env name="1">x</env>b', "ab"),
        ("a<env\n>x</env>b", "ab"),
        ("<env>1</env>a<system-reminder>2</system-reminder>b<env>3</env>", "ab"),
        ("a<env>x<system-reminder>y</env>b", "ab"),
        ("a<environment>x</environment>b", "a<environment>x</environment>b"),
        ("a<other>x</other>b", "a<other>x</other>b"),
        ("a</env>b", "a</env>b"),
        ("", ""),
    ],
)
def test_a_block_is_removed_with_its_tags(given: str, expected: str) -> None:
    assert BLOCKS.without(given) == expected


def test_a_block_that_is_not_closed_stays() -> None:
    given = "a<env>b<env >c</environment_details>d"

    assert BLOCKS.without(given) == given
    assert BLOCKS.without(given + "<system-reminder>e</system-reminder>f") == given + "f"


def test_a_nested_block_ends_with_the_first_closing_tag() -> None:
    assert BLOCKS.without("a<env>b<env>c</env>d</env>e") == "ad</env>e"


def test_letters_whose_lower_case_is_longer_do_not_move_the_cut() -> None:
    assert BLOCKS.without("İİİİ<env>x</ENV>Xyz") == "İİİİXyz"
    assert BLOCKS.without_last("İİ words<system-reminder>İ</System-Reminder>") == "İİ words"


def test_other_letters_do_not_pass_for_a_tag() -> None:
    given = "a<\u017fystem-reminder>x</\u017fystem-reminder>b"

    assert BLOCKS.without(given) == given


def test_without_any_tags_nothing_is_removed() -> None:
    assert VolatileBlocks(()).without("a<env>x</env>") == "a<env>x</env>"
    assert VolatileBlocks(()).without_last("a<env>x</env>") == "a<env>x</env>"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("out", "out"),
        ("out \n", "out"),
        ("out<system-reminder>x</system-reminder>", "out"),
        ("out\n\n<env>x</env>\n<system-reminder>x</system-reminder>\n", "out"),
        ("<env>x</env>out", "<env>x</env>out"),
        ("<env>x</env>out<env>y</env>", "<env>x</env>out"),
        ("out</env>", "out</env>"),
        ("out<env>x</system-reminder>", "out<env>x</system-reminder>"),
        ("<env>x</env>", ""),
        ("", ""),
    ],
)
def test_only_the_blocks_at_the_end_are_removed_from_a_result(given: str, expected: str) -> None:
    assert BLOCKS.without_last(given) == expected


@pytest.mark.parametrize(
    "piece",
    ["<env", "<env>", "<env ", "</env>", "<env>x</environment_details>", "<system-reminder>", "<"],
)
def test_a_hostile_text_takes_linear_time(piece: str) -> None:
    given = piece * (MEGABYTE // len(piece))
    seconds = []
    for _ in range(3):
        start = thread_time()
        BLOCKS.without(given)
        seconds.append(thread_time() - start)

    assert min(seconds) < 0.1


@pytest.mark.parametrize("piece", ["<env></env>", "<env>", "</env>", "<env> ", "> "])
def test_many_blocks_at_the_end_take_linear_time(piece: str) -> None:
    given = piece * (MEGABYTE // len(piece)) + "</env>"
    start = thread_time()
    BLOCKS.without_last(given)

    assert thread_time() - start < 1
