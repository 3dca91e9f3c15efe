"""Known bugs come back on purpose, one by one, and each is noticed by the test that is for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bugs.bringing_back import (
    CAUGHT_BY,
    PATCHES,
    Bug,
    Workshop,
    bugs,
    copy_of_the_project,
    open_workshop,
    read_bug,
)

BUGS = bugs()
LEAST = 20
MOST_LINES = 6


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with open_workshop(tmp_path_factory.mktemp("workshop")) as workshop:
        yield workshop


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_that_comes_back_is_noticed(bug: Bug, workshop: Workshop, tmp_path: Path) -> None:
    """The tests fail where the bug is, by what they assert and not by a broken import."""
    copy = copy_of_the_project(tmp_path)
    bug.bring_back(copy)

    ran = workshop.run(copy, bug.tests)

    assert ran.code == pytest.ExitCode.TESTS_FAILED, ran.words
    assert ran.noticed() == set(bug.tests), ran.words


def test_without_a_bug_the_same_tests_pass(workshop: Workshop, tmp_path: Path) -> None:
    tests = sorted({test for bug in BUGS for test in bug.tests})

    ran = workshop.run(copy_of_the_project(tmp_path), tests)

    assert ran.code == pytest.ExitCode.OK, ran.words


def test_the_bugs_are_many_small_and_of_the_app_itself() -> None:
    assert len(BUGS) >= LEAST
    for bug in BUGS:
        assert bug.rule.startswith(("BUGS ", "FAULTS "))
        assert bug.tests
        assert all(hunk.file.startswith("app/") for hunk in bug.hunks)


@pytest.mark.parametrize("file", sorted(PATCHES.glob("*.patch")), ids=lambda file: file.stem)
def test_a_patch_changes_few_lines(file: Path) -> None:
    lines = file.read_text().splitlines()

    assert lines[1].startswith(CAUGHT_BY)
    for mark in "+-":
        changed = [line for line in lines if line.startswith(mark) and line[:3] != mark * 3]
        assert len(changed) <= MOST_LINES


PATCH = """\
BUGS 0: nothing
Caught by: test_b
--- a/app/one.py
+++ b/app/one.py
@@ -1,2 +1,2 @@
 same
-old
+new
"""


@pytest.mark.parametrize("text", ["", "same\nother\n", "same\nold\n" * 2])
def test_lines_that_are_gone_or_stand_twice_are_told(text: str, tmp_path: Path) -> None:
    """A patch that no longer fits is no test that passes."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app/one.py").write_text(text)

    with pytest.raises(AssertionError, match=r"stand [02] times in app/one\.py"):
        read_bug("00-nothing", PATCH).bring_back(tmp_path)
