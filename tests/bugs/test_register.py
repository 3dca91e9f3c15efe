"""Every rule of the register has a test of its own name, so that none is lost on the way."""

import pytest

from tests.bugs.register import RULES, named_rules, numbers_in


def test_every_rule_is_named_by_a_test() -> None:
    named = {number for number, test in named_rules() if "::test_" in test}

    assert list(RULES) == list(range(1, 51))
    assert sorted(set(RULES) - named) == []


def test_no_test_names_a_rule_that_there_is_not() -> None:
    strangers = [(number, test) for number, test in named_rules() if number not in RULES]

    assert strangers == []


@pytest.mark.parametrize(
    ("docstring", "numbers"),
    [
        ("BUGS 7.", [7]),
        ("BUGS 7: 300 leave and 50 are served.", [7]),
        ("BUGS 1, 2 and 38: pairs hold.", [1, 2, 38]),
        ("FAULTS A14, BUGS 1, BUGS 2, FAULTS C17", [1, 2]),
        ("FAULTS C17: nothing of 12, and 13.", []),
    ],
)
def test_numbers_are_read_from_a_docstring(docstring: str, numbers: list[int]) -> None:
    assert numbers_in(docstring) == numbers
