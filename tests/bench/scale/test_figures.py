import pytest

from bench.scale.figures import scales, verdicts
from bench.scale.page import page
from bench.scale.setups import Figure


def test_throughput_is_compared_within_a_round() -> None:
    one, two = scales([figure("one", 10.0), figure("one", 40.0), *pair("two", 5.0, 20.0)])

    assert one.times_one == 1
    assert two.times_one == 2
    assert one.a_second == pytest.approx((100 / 10 + 100 / 40) / 2)
    assert two.cpu_ms == 20
    assert two.a_core == 50


def test_side_queries_are_compared_over_all_rounds() -> None:
    found = scales([figure("one", side=10), figure("two", side=12)])

    assert found[1].side_queries_times_one == 1.2
    assert verdicts(found)[0].startswith("**missed**: two: 1.20 x the side-queries of one")


def test_what_failed_is_said() -> None:
    found = scales([figure("one"), figure("two", errors=3)])

    assert verdicts(found) == [
        "holds: two: 1.00 x the side-queries of one (wanted: at most 1.1)",
        "**missed**: 3 requests failed or were sent without their compaction",
    ]


def test_the_page_has_a_row_for_each_setup() -> None:
    written = page(scales([figure("one", 10.0), figure("two", 5.0)]), {"date": "today"})

    assert "| one | 100 | 10 | 1.00 | 20.00 | 50 | 7.0 | 10 | 1.00 |" in written
    assert "| two | 100 | 20 | 2.00 | 20.00 | 50 | 7.0 | 10 | 1.00 |" in written
    assert "| date | today |" in written


def pair(name: str, *seconds: float) -> list[Figure]:
    return [figure(name, it) for it in seconds]


def figure(name: str, seconds: float = 10.0, side: int = 10, errors: int = 0) -> Figure:
    lost = {"status 500": errors} if errors else {}
    return Figure(name, 100, seconds, 2.0, 7.0, side, lost, {"none": 100})
