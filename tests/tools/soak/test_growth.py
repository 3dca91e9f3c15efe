"""What counts as growth, and what does not."""

from random import Random

from tools.soak.growth import (
    LEAST_BYTES,
    MOST_WAL_BYTES,
    POOL_THREADS,
    Sample,
    bytes_per_request,
    complaints_about,
    slope,
)

MEGABYTE = 1024 * 1024
IDLE = Sample(0, 0, 100 * MEGABYTE, fds=20, tasks=8, threads=14, wal_bytes=0)


def samples(bytes_per_request: float, *, wal_bytes: int = 0) -> list[Sample]:
    """Return a run of ten minutes whose memory grows so, with noise and a warm-up."""
    random = Random(1)
    return [
        Sample(
            seconds=number * 2,
            requests=number * 600,
            rss_bytes=int(
                min(number, 60) * MEGABYTE
                + number * 600 * bytes_per_request
                + random.uniform(-2, 2) * MEGABYTE
            ),
            fds=40,
            tasks=30,
            threads=16,
            wal_bytes=wal_bytes,
        )
        for number in range(300)
    ]


def test_a_slope_is_not_moved_by_outliers() -> None:
    points = [(float(x), 3.0 * x) for x in range(50)]
    points[10] = (10.0, 1e9)

    assert slope(points) == 3.0


def test_points_at_one_place_have_no_slope() -> None:
    assert slope([(1.0, 1.0), (1.0, 9.0)]) == 0.0


def test_a_cache_that_fills_in_the_warm_up_is_no_growth() -> None:
    given = samples(bytes_per_request=0)

    assert abs(bytes_per_request(given)) < 20
    assert complaints_about(given, IDLE, IDLE) == []


def test_a_leak_is_growth() -> None:
    given = samples(bytes_per_request=200)

    (complaint,) = complaints_about(given, IDLE, IDLE)

    assert complaint.startswith("memory grew by ")


def test_a_steep_slope_over_few_requests_is_noise() -> None:
    given = samples(bytes_per_request=200)[:20]

    assert given[-1].requests * 200 < LEAST_BYTES
    assert complaints_about(given[:1] * 20, IDLE, IDLE) == []


def test_what_the_idle_proxy_holds_at_the_end_must_not_be_more_than_before() -> None:
    after = Sample(9, 9, 0, fds=21, tasks=9, threads=15 + POOL_THREADS, wal_bytes=0)

    found = complaints_about(samples(0), IDLE, after)

    assert [complaint.partition(":")[0] for complaint in found] == ["fds", "tasks", "threads"]


def test_a_log_that_is_never_written_back_is_growth() -> None:
    found = complaints_about(samples(0, wal_bytes=MOST_WAL_BYTES + 1), IDLE, IDLE)

    assert found == ["the WAL grew to 75.5 MB"]
