from pathlib import Path

import pytest

from tools.compat.lineup import CLIENTS, PINS, Client
from tools.compat.report.matrix import NAMES, shortfalls, written
from tools.compat.report.results import FAILED, NOT_APPLICABLE, OK, Finding, keep, kept
from tools.compat.report.snippet import VALUES, snippet_of

ALL_WELL = {name: Finding(OK, steps=26, compactions=5) for name in NAMES}


def test_the_page_has_a_row_with_the_version_and_every_outcome() -> None:
    client = CLIENTS[0]

    page = written([client], {client.name: ALL_WELL})

    row = next(line for line in page.splitlines() if line.startswith(f"| {client.title} |"))
    assert f"| {client.version} |" in row
    assert row.count("| ok ") == len(NAMES)
    assert row.endswith("| 26 | 5 | 0 |")


def test_a_failure_stands_out_and_its_reason_is_told_on_one_line() -> None:
    client = CLIENTS[0]
    findings = {**ALL_WELL, "image": Finding(FAILED, "saw status 400;\nno answer")}

    page = written([client], {client.name: findings})

    assert "| **failed** |" in page
    assert f"- {client.title}, image: failed, saw status 400; no answer" in page.splitlines()


def test_what_a_client_cannot_do_is_told_and_costs_nothing() -> None:
    results = {client.name: ALL_WELL for client in CLIENTS}
    name = CLIENTS[-1].name
    results[name] = {**ALL_WELL, "image": Finding(NOT_APPLICABLE, "takes none")}

    assert "image: n/a, takes none" in written(CLIENTS, results)
    assert shortfalls(CLIENTS, results) == []


def test_a_client_with_a_scenario_untried_is_not_green() -> None:
    results = {client.name: {"hello": Finding(OK)} for client in CLIENTS}

    assert shortfalls(CLIENTS, results)[0] == "0 clients are green, 8 are asked for"


def test_agents_that_took_few_steps_or_were_never_compacted_do_not_count() -> None:
    results = {client.name: dict(ALL_WELL) for client in CLIENTS}
    agents = [client.name for client in CLIENTS if client.kind == "coding agent"]
    for number, name in enumerate(agents):
        short = Finding(OK, steps=19, compactions=5)
        loose = Finding(OK, steps=26, compactions=1)
        results[name]["tools"] = short if number % 2 else loose

    assert shortfalls(CLIENTS, results) == ["0 coding agents went far enough, 2 are asked for"]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_every_driver_shows_a_configuration_without_our_variables(client: Client) -> None:
    _, lines = snippet_of(client.driver_file)

    assert VALUES["ROOT" if client.api == "messages" else "PROXY"] in lines
    assert not any(f"${name}" in lines for name in (*VALUES, "TASK"))


def test_a_client_with_a_limit_of_its_own_has_a_row_for_each() -> None:
    client = next(it for it in CLIENTS if it.name == "codex")
    itself = {"own-limit-70": Finding(OK, steps=61, own_compactions=7, side_queries=5)}
    itself["own-limit-85"] = Finding(FAILED, "2 side-queries", steps=61, double=2)

    page = written([client], {client.name: {**ALL_WELL, **itself}}).splitlines()

    rows = [line for line in page if line.startswith(f"| {client.title} {client.version} |")]
    assert rows[0].endswith("| 70 % | ok | 61 | 7 | 0 | 0 | 5 | 0 |")
    assert rows[1].endswith("| 85 % | **failed** | 61 | 0 | 0 | 0 | 0 | 2 |")


def test_the_page_tells_what_was_played_when() -> None:
    one, two = CLIENTS[:2]
    old, new = (
        {name: Finding(OK, run=run) for name in NAMES}
        for run in ("2026-01-01, commit a", "2026-01-02, commit b")
    )

    assert "All was played on 2026-01-02, commit b." in written(
        [one, two], {one.name: new, two.name: new}
    )
    page = written([one, two], {one.name: old, two.name: new})
    assert "- played on 2026-01-01, commit a: openai (Python) (chat, 8,192)" in page.splitlines()
    assert "- played on 2026-01-02, commit b: openai (Node) (chat, 8,192)" in page.splitlines()


def test_a_client_that_was_played_twice_is_told_with_its_scenarios() -> None:
    client = CLIENTS[0]
    findings = {name: Finding(OK, run="2026-01-01, commit a") for name in NAMES}
    findings["tools"] = Finding(OK, run="2026-01-02, commit b")

    page = written([client], {client.name: findings}).splitlines()

    assert "- played on 2026-01-02, commit b: openai (Python) (chat, 8,192): tools" in page


def test_a_scenario_that_was_not_played_is_neither_ok_nor_failed() -> None:
    client = CLIENTS[0]
    findings = {name: finding for name, finding in ALL_WELL.items() if name != "abort"}

    page = written([client], {client.name: findings})

    row = next(line for line in page.splitlines() if line.startswith(f"| {client.title} |"))
    assert row.count("| ok ") == len(NAMES) - 1
    assert "| not run |" in row


def test_two_clients_of_one_driver_show_its_configuration_once() -> None:
    pair = [client for client in CLIENTS if client.driver == "open_webui.py"]
    results = {client.name: ALL_WELL for client in pair}

    page = written(pair, results)

    assert len(pair) == 2
    assert page.count("**Open WebUI** (") == 1
    assert {f"| {client.window:,} |" in page for client in pair} == {True}


def test_every_client_is_pinned_to_one_version() -> None:
    assert {client.package or client.name for client in CLIENTS} == set(PINS)
    assert all(client.version[0].isdigit() for client in CLIENTS)


def test_results_come_back_as_they_were_kept(tmp_path: Path) -> None:
    results = {"one": ALL_WELL, "two": {"hello": Finding(FAILED, "no")}}

    keep(tmp_path / "results.json", results)

    assert kept(tmp_path / "results.json", ["one", "two", "three"]) == results
