"""The changes that are tried on the core: each is one, and each is still Python."""

import ast

import pytest

from tests.bugs.bringing_back import ROOT
from tools.mutation.mutants import mutants_of
from tools.mutation.run import sample


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("x = a < b", {"x = (a <= b)"}),
        ("x = a and b", {"x = (a or b)"}),
        ("x = é + b", {"x = (é - b)"}),
        ("x = not a", {"x = (a)"}),
        ("x = 7", {"x = 8"}),
        ("x = True", {"x = False"}),
        ("x = 'é'", {"x = 'XXé'"}),
        ("x = a if b else c", {"x = (a)", "x = (c)"}),
        ("def f() -> int:\n    return x", {"def f() -> int:\n    return None"}),
        ("a.append(b)", {"pass"}),
        ("a += b", {"pass"}),
        ("for a in b:\n    continue", {"for a in b:\n    break"}),
    ],
)
def test_a_change_is_made_where_it_can_be(source: str, changed: set[str]) -> None:
    assert {mutant.applied(source) for mutant in mutants_of("a.py", source)} == changed


@pytest.mark.parametrize(
    "source",
    ['"""Says 7."""', "x: Literal['a']", "@f(7)\ndef g(): ...", "x = f'{7}'", "# 7", "x = ''"],
)
def test_what_runs_nothing_is_left_alone(source: str) -> None:
    assert mutants_of("a.py", source) == []


def test_a_sample_is_python_and_the_same_for_the_same_seed() -> None:
    chosen = sample(40, seed=3)

    assert chosen == sample(40, seed=3) != sample(40, seed=4)
    assert len(set(chosen)) == 40
    for mutant in chosen:
        ast.parse(mutant.applied((ROOT / mutant.file).read_text()))
