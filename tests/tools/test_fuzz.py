"""Every run tries each target a little; `make fuzz` looks for as long as it is told."""

import re
from pathlib import Path
from random import Random

import pytest

from tools.fuzz import run, unguided
from tools.fuzz.mutations import inputs_for, mutations_of
from tools.fuzz.targets import CORPUS, TARGETS, WORDS, Target

MUTATIONS = 400
WORD = re.compile(r'"(?:[^"\\]|\\["\\]|\\x[0-9a-f]{2})+"')
SLOW = {"wire": 100, "registry": 150}


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_target_takes_any_bytes(name: str) -> None:
    """What failed once is among the seeds."""
    target = TARGETS[name]
    test = target.load()

    for data in inputs_for(target, seed=1, count=SLOW.get(name, MUTATIONS)):
        test(data)


def test_every_target_has_seeds_and_words() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == set(TARGETS)
    assert {file.stem for file in WORDS.iterdir()} == set(TARGETS)
    assert all(target.seeds() and target.words() for target in TARGETS.values())


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_words_are_written_in_the_escapes_that_libfuzzer_reads(name: str) -> None:
    """It stops at others before the first run."""
    lines = TARGETS[name].word_file.read_text().splitlines()

    assert [line for line in lines if not WORD.fullmatch(line)] == []


def test_mutations_are_the_same_for_the_same_seed_and_seldom_a_seed_again() -> None:
    def some(seed: int) -> list[bytes]:
        endless = mutations_of([b"first", b"second"], [b"word"], Random(seed))
        return [next(endless) for _ in range(100)]

    assert some(1) == some(1)
    assert some(1) != some(2)
    assert len(set(some(1)) - {b"first", b"second"}) > 50


def test_an_input_that_fails_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search can fail, and says with what."""
    target = Target("marker", "fragile", "dislike_brackets")
    monkeypatch.setitem(TARGETS, "marker", target)

    with pytest.raises(ValueError, match="a bracket"):
        unguided.main("marker", 20, tmp_path)

    (kept,) = tmp_path.iterdir()
    assert b"[" in kept.read_bytes()


def test_a_run_takes_its_time_and_tells_what_came_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "CRASHES", tmp_path / "crashes")

    finding = run.fuzz(TARGETS["marker"], seconds=1)

    assert finding.words == ""
    assert finding.crashes == []
    assert finding.runs > 10
    assert finding.seconds >= 1
