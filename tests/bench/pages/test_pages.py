import re
from dataclasses import asdict, replace
from pathlib import Path

import orjson
import pytest

from bench.contenders import BARE_RELAY, CHAT_PROXY, CHAT_PROXY_OFF, NGINX
from bench.pages.__main__ import marked, write
from bench.pages.relay import part
from bench.peers.agentic_api import AGENTIC_API
from bench.peers.catalogue import PEERS
from bench.peers.envoy import ENVOY
from bench.results import DIRECT, Entry, Results, read
from bench.results import Figure as Burst
from bench.scale.setups import Figure
from bench.traffic.load import Outcome
from bench.traffic.scenarios import ALL, ALONE, LARGE, Scenario
from tests.packaging.test_figures import BENCHMARKS, DEPLOY, FIGURES, README, ROOT, number

MEASURED = ["CPU of a small request", "CPU of a large request", "CPU of a stream", "idle memory"]
OWN = (NGINX, BARE_RELAY, CHAT_PROXY_OFF, CHAT_PROXY)
COSTS = {NGINX: 20.0, CHAT_PROXY: 131.0, ENVOY: 52.0, AGENTIC_API: 60.0}


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """The pages as they are, written with other figures."""
    (tmp_path / "docs").mkdir()
    for name in (README, DEPLOY, BENCHMARKS):
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "results.json").write_bytes(orjson.dumps(asdict(results())))
    kept = {"facts": {"date": "2031-02-03"}, "figures": [asdict(it) for it in scale()]}
    (tmp_path / "scale.json").write_bytes(orjson.dumps(kept))
    write(tmp_path, tmp_path / "results.json", tmp_path / "scale.json")
    return tmp_path


@pytest.mark.parametrize("name", [*MEASURED, "share of LiteLLM's cost"])
def test_written_figures_are_the_same_on_every_page(name: str, pages: Path) -> None:
    found = {
        page: re.findall(pattern, (pages / page).read_text(encoding="utf-8"))
        for page, pattern in FIGURES[name].items()
    }

    assert all(len(figures) == 1 for figures in found.values()), found
    assert len({figures[0] for figures in found.values()}) == 1, found


def test_the_written_figures_are_those_of_the_results(pages: Path) -> None:
    readme = (pages / README).read_text(encoding="utf-8")

    assert "| 131 µs, a sixtieth of LiteLLM" in readme
    assert "| idle memory | 99 MB |" in readme


def test_throughput_is_computed_from_the_figure_that_is_shown(pages: Path) -> None:
    row = r"\| ([^|]+) \| ([\d,]+) µs \| ([\d,.]+) a second \| ([\d,.]+) a second"
    rows = re.findall(row, (pages / DEPLOY).read_text(encoding="utf-8"))

    assert len(rows) == 4
    for _, cost, whole, half in rows:
        assert number(whole) == pytest.approx(1e6 / number(cost), rel=0.005)
        assert number(half) == pytest.approx(5e5 / number(cost), rel=0.005)


def test_the_setups_are_compared_on_the_page_of_deployment(pages: Path) -> None:
    deploy = (pages / DEPLOY).read_text(encoding="utf-8")

    assert "| one process | 50 | 1.00 | 1.00 |" in deploy
    assert "| two workers | 100 | 2.00 | 1.05 |" in deploy
    assert "2031-02-03" in deploy


def test_peers_that_are_cheaper_are_named(pages: Path) -> None:
    benchmarks = (pages / BENCHMARKS).read_text(encoding="utf-8")

    assert "Envoy needs less CPU than chat-proxy: 0.40 x (small request, one" in benchmarks
    assert "compacts nothing" in benchmarks
    assert (
        "| nginx | bare relay | chat-proxy, off | chat-proxy | Envoy | agentic-api |" in benchmarks
    )


def test_writing_twice_changes_nothing(pages: Path) -> None:
    before = {name: (pages / name).read_bytes() for name in (README, DEPLOY, BENCHMARKS)}

    write(pages, pages / "results.json", pages / "scale.json")

    assert {name: (pages / name).read_bytes() for name in before} == before


def test_kept_results_are_read_again(pages: Path) -> None:
    assert read(pages / "results.json") == results()


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="marks"):
        marked("# A page\n", "bench", "x\n")


def test_a_part_is_never_smaller_than_measured() -> None:
    assert [part(it) for it in (None, 1.4, 2, 62, 300)] == [
        "no part",
        "no part",
        "a half",
        "a sixtieth",
        "a hundredth",
    ]


def results() -> Results:
    facts = {
        "rounds": 1,
        "cores": 2,
        "processor": "a processor",
        "load_average_before": 0.25,
        "date": "2031-02-03T00:00:00+00:00",
    }
    names = (*OWN, *PEERS)
    entries = [Entry(it, "1.2.3", [0.5], 99_000_000, 120_000_000) for it in names]
    outcome = Outcome(100, 1.0, 200.0, 300.0, 1.0, {})
    figures = [Burst(DIRECT, ALONE.name, 1, 0.0, replace(outcome, p50_us=50.0))]
    figures += [
        Burst(
            name,
            scenario.name,
            1,
            COSTS.get(name, 8_000.0) * (2 if scenario is LARGE else 1),
            outcome,
        )
        for name in names
        for scenario in ALL
    ]
    return Results(facts, entries, figures)


def cost_of(name: str, scenario: Scenario) -> float:
    return COSTS.get(name, 8_000.0) * (2 if scenario is LARGE else 1)


def scale() -> list[Figure]:
    one = Figure("one process", 1_000, 20.0, 17.0, 40.0, 100, {}, {"built": 9})
    return [one, replace(one, setup="two workers", seconds=10.0, side_queries=105)]
