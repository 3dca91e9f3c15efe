"""Every fault has a test, every test here names its fault, and docs/faults.md shows both."""

import pytest

from docs.faults import PAGE, found_by_row, named_tests, page, rows_in
from tests.faults.catalogue import ROWS

NAMES = [row.name for row in ROWS]


def test_the_rows_are_named_once_and_in_order() -> None:
    groups = {"A": 25, "B": 33, "C": 20, "D": 15, "E": 12, "F": 30}

    expected = [f"{group}{n + 1}" for group, count in groups.items() for n in range(count)]

    assert expected == NAMES


def test_every_row_has_a_test() -> None:
    missing = [row for row, tests in found_by_row().items() if not tests]

    assert missing == []


def test_every_test_of_a_fault_names_rows_of_the_catalogue() -> None:
    nameless = [
        f"{file}::{name}"
        for file, name in named_tests()
        if not rows_in(name) or not set(rows_in(name)) <= set(NAMES)
    ]

    assert nameless == []


def test_the_page_of_faults_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "docs/faults.md is old: run make docs"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("test_a18_a_client_that_leaves", ["A18"]),
        ("test_b8_b9_an_end", ["B8", "B9"]),
        ("test_a_client", []),
        ("test_g1_something", []),
        ("test_a1", []),
    ],
)
def test_a_name_begins_with_its_rows(name: str, rows: list[str]) -> None:
    assert rows_in(name) == rows
