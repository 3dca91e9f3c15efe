"""A soak of a few seconds: that it runs, loads, faults and counts; `make soak` takes its time."""

import json
from pathlib import Path

import pytest

from tools.soak.options import Options, read_options
from tools.soak.plan import ABORTS, FAULTS, FINE, Plan, trouble_of
from tools.soak.report import report, write
from tools.soak.run import soak

pytestmark = pytest.mark.anyio


async def test_a_short_soak_accounts_for_every_request(tmp_path: Path) -> None:
    told: list[int] = []
    options = Options(minutes=0.05, clients=6, first_requests=400, every_seconds=0.5)

    outcome = await soak(options, lambda sample, _: told.append(sample.requests))
    write(outcome, tmp_path / "figures.json")

    assert outcome.complaints == []
    assert outcome.books.open_requests == 0
    assert outcome.books.sent > 400
    assert outcome.model.summaries
    assert told
    assert report(outcome).endswith("passed")
    figures = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert figures["requests"] == outcome.books.sent


def test_troubles_come_in_their_shares_and_are_read_from_the_id() -> None:
    plan = Plan(Options())
    errands = [plan.next_errand() for _ in range(10_000)]

    aborts = sum(errand.trouble in ABORTS for errand in errands)
    faults = sum(errand.trouble in FAULTS for errand in errands)

    assert 1_800 < aborts < 2_200
    assert 400 < faults < 600
    assert 60 < sum(plan.store_fails() for _ in range(10_000)) < 140
    assert all(trouble_of(errand.request_id) == errand.trouble for errand in errands)
    assert trouble_of(None) == trouble_of("somebody's-reset") == FINE


def test_the_command_line_says_how_long() -> None:
    assert read_options(["--minutes", "35"]).seconds == 2_100
