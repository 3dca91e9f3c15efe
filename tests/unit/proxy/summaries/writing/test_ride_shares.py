"""Where rides are hardly cached, the next summaries are asked by transcript."""

import json

import pytest

from chat_proxy.proxy.summaries.writing import ride_shares as module
from chat_proxy.proxy.summaries.writing.ride_shares import RETRY_SECONDS, RideShares
from chat_proxy.telemetry.metrics import Metrics
from tests.journeys.trimming.growing import listening

HERE = ("http://here/v1", "m")


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def shares_after(*cached: int | None, clock: Clock | None = None) -> RideShares:
    """Return what is known after rides of 100 tokens of which so many were cached."""
    shares = RideShares(Metrics(), clock or Clock())
    for tokens in cached:
        shares.observe(*HERE, tokens, 100)
    return shares


def switches(shares: RideShares) -> dict[str, float]:
    lines = shares._metrics.render().decode().splitlines()
    found = [line for line in lines if line.startswith("chat_proxy_ride_switches_total{")]
    return {line.split('"')[1]: float(line.rpartition(" ")[2]) for line in found}


@pytest.mark.parametrize(
    ("cached", "rides"),
    [
        ([], True),
        ([0], True),
        ([7, 7], False),
        ([49, 50], False),
        ([50, 50], True),
        ([99, 99, 0], True),
        ([99, 99, 0, 0], False),
        ([7, 99], True),
        ([None, None, None], True),
        ([None, 7, None, None], True),
        ([7, None, 7], False),
    ],
)
def test_rides_go_on_while_at_least_half_is_cached(cached: list[int | None], rides: bool) -> None:
    assert shares_after(*cached).may_ride(*HERE) is rides


def test_an_upstream_that_reports_its_cache_and_leaves_it_out_has_cached_nothing() -> None:
    """vLLM and SGLang leave `cached_tokens` out where it would be 0."""
    assert not shares_after(99, 99, None, None).may_ride(*HERE)


def test_only_the_newest_rides_count() -> None:
    assert not shares_after(*[99] * 50, 7, 7, 7).may_ride(*HERE)


def test_more_cached_than_was_sent_again_is_all_of_it() -> None:
    """Some upstreams count the prompt without what was cached."""
    assert not shares_after(9_000, 0, 0, 0).may_ride(*HERE)


def test_a_ride_without_a_count_says_nothing() -> None:
    shares = RideShares(Metrics(), Clock())
    for _ in range(3):
        shares.observe(*HERE, 0, 0)

    assert shares.may_ride(*HERE)


@pytest.mark.parametrize("other", [("http://there/v1", "m"), ("http://here/v1", "n")])
def test_other_upstreams_and_models_are_ridden_on(other: tuple[str, str]) -> None:
    assert shares_after(0, 0).may_ride(*other)


def test_a_ride_is_tried_again_after_an_hour() -> None:
    clock = Clock()
    shares = shares_after(7, 7, clock=clock)

    clock.now += RETRY_SECONDS - 1
    before = shares.may_ride(*HERE)
    clock.now += 2
    after = [shares.may_ride(*HERE), shares.may_ride(*HERE)]

    assert not before
    assert after == [True, True]
    assert switches(shares) == {"transcript": 1, "ride": 1}


@pytest.mark.parametrize(("cached", "rides"), [(7, False), (None, False), (99, True)])
def test_the_trial_decides_anew(cached: int | None, rides: bool) -> None:
    clock = Clock()
    shares = shares_after(7, 7, clock=clock)
    clock.now += RETRY_SECONDS + 1
    shares.may_ride(*HERE)

    for _ in range(2):
        shares.observe(*HERE, cached, 100)

    assert shares.may_ride(*HERE) is rides


def test_a_ride_that_ends_after_the_switch_changes_nothing() -> None:
    """Several summaries may be under way when it is learned."""
    shares = shares_after(7, 7, 99, 99, 99, 99)

    assert not shares.may_ride(*HERE)
    assert switches(shares) == {"transcript": 1}


def test_each_change_is_logged_once() -> None:
    clock = Clock()
    with listening() as log:
        shares = shares_after(7, 9, 7, 7, clock=clock)
        clock.now += RETRY_SECONDS + 1
        shares.may_ride(*HERE)
        shares.may_ride(*HERE)
        lines = [json.loads(line) for line in log.stream.getvalue().splitlines()]

    assert [line["message"] for line in lines] == [module.STOPPED, module.TRIED_AGAIN]
    assert (lines[0]["model"], lines[0]["cached_share"]) == ("m", 0.08)
    assert "http" not in json.dumps(lines)


def test_no_more_models_are_remembered_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MODELS", 2)
    shares = shares_after(0, 0)

    for name in ("a", "b"):
        shares.observe("http://here/v1", name, 99, 100)

    assert shares.may_ride(*HERE)
