from bench.waits.histories import History, count_tokens
from bench.waits.journey import PHASES, QUIET, Step
from bench.waits.page import Found, misses, page
from bench.waits.upstream import summary_of

SIZE = 2_000_000


def found(*worst: float) -> Found:
    """Return rounds in which the other client waited so many milliseconds at most."""
    rounds = [
        dict.fromkeys((QUIET, *PHASES), Step(0.1, [0.001, wait / 1e3], 0.2, "")) for wait in worst
    ]
    return {SIZE: {"now": rounds}}


def test_the_best_round_decides_whether_a_goal_is_kept() -> None:
    assert misses(found(90, 9)) == {}
    assert misses(found(90, 11)) == {SIZE: 11}


def test_the_page_tells_each_phase_and_the_goal() -> None:
    text = page(found(90, 11), ["now"])

    assert all(f"| 2 MB | {phase} | 100.0 | 11.0 | 11.0 | 200.0 |" in text for phase in PHASES)
    assert "the goal of 10 ms is missed" in text


def test_a_history_grows_by_whole_steps_to_its_size() -> None:
    history = History("a")

    history.grow(50_000)

    assert 50_000 < len(history.body()) < 60_000
    assert history.messages[-1]["role"] == "user"
    assert 10_000 < count_tokens(history.messages) < 25_000


def test_a_summary_quotes_what_was_sent() -> None:
    history = History("a")
    history.grow(50_000)
    said = history.body().decode()

    bullets = [line for line in summary_of(history.body()).splitlines() if "_" in line]

    assert bullets
    assert all(bullet.removeprefix("- ")[:20] in said for bullet in bullets)
