"""Figures that several pages state are the same on each of them, and those of the code."""

import re
from pathlib import Path

import pytest

from chat_proxy.config.documented import documented_sections
from chat_proxy.proxy.reporting import shared_chat_log
from chat_proxy.proxy.session.recognition import checkpoints

ROOT = Path(__file__).parents[2]
README, DEPLOY, BENCHMARKS = "README.md", "docs/deploy.md", "docs/benchmarks.md"
IDENTITY, CONNECT, TROUBLES = "docs/identity.md", "docs/connect.md", "docs/troubleshooting.md"
OURS = r"(?:[\d,.]+ \| ){3}([\d,.]+) \|"
"""The fourth column of the table of benchmarks."""

FIGURES = {
    "CPU of a small request": {
        README: r"CPU time of a small request, 16 connections \| (\d+) µs",
        DEPLOY: r"\| small requests, every text new \| ([\d,]+) µs",
        BENCHMARKS: rf"\| small request, 16 connections \| {OURS}",
    },
    "CPU of a large request": {
        DEPLOY: r"\| 120 KB requests that continue earlier ones \| ([\d,]+) µs",
        BENCHMARKS: rf"\| 120 KB request[^|]*, 16 connections \| {OURS}",
    },
    "CPU of a stream": {
        DEPLOY: r"\| streams of 100 chunks \| ([\d,]+) µs",
        BENCHMARKS: rf"\| 100-chunk stream, 16 connections \| {OURS}",
    },
    "idle memory": {
        README: r"\| idle memory \| (\d+) MB",
        DEPLOY: r"\| idle \| (\d+) \| measured",
        BENCHMARKS: rf"\| idle memory, MB \| {OURS}",
    },
    "share of LiteLLM's cost": {
        README: r"µs, (a \w+) of LiteLLM",
        BENCHMARKS: r"nginx needs, (a \w+) of LiteLLM",
    },
    "requests of the replay": {
        README: r"\| 0 of ([\d,]+); without a proxy",
        BENCHMARKS: r"Of ([\d,]+) requests with the proxy, none was refused",
    },
    "refused without a proxy": {
        README: r"without a proxy (\d+) \|",
        BENCHMARKS: r"none was refused \(no proxy: (\d+)",
    },
    "facts kept without a proxy": {
        README: r"all; without a proxy (\d+\W\d+) %",
        BENCHMARKS: r"no proxy and headroom: (\d+\W\d+) %",
    },
    "share of the bill": {
        README: r"\| (\d+\W\d+) % of that of an endless window",
        BENCHMARKS: r"the bill was (\d+\W\d+) % of that of an endless window",
    },
    "opencode's prompt": {
        CONNECT: r"([\d,]+) tokens for opencode",
        DEPLOY: r"([\d,]+) \(opencode\)",
        TROUBLES: r"opencode's own prompt has about ([\d,]+) tokens",
    },
    "qwen-code's prompt": {
        CONNECT: r"([\d,]+) for qwen-code",
        TROUBLES: r"qwen-code's ([\d,]+),",
    },
    "Claude Code's prompt": {
        CONNECT: r"([\d,]+) for Claude Code",
        DEPLOY: r"([\d,]+) tokens \(Claude Code\)",
        TROUBLES: r"Claude Code's ([\d,]+)",
    },
    "days of checkpoints": {
        README: r"\| summaries, and what was shortened \|.*\| (\d+) days \|",
        DEPLOY: r"\| checkpoints: .*? \| (\d+) days \|",
        IDENTITY: r"\| checkpoints: .*\| (\d+) days \|",
    },
    "days of originals": {
        README: r"\| originals of .*\| (\d+) days \|",
        IDENTITY: r"\| originals of .*`CHAT_PROXY_ARCHIVE_RETENTION_DAYS` \((\d+)\)",
        "docs/install.md": r"as plain text, for (\d+) days",
    },
    "days of the dashboard's list": {
        README: r"\| the dashboard's list.*\| (\d+) day \|",
        IDENTITY: r"\| the dashboard's list.*\| (\d+) day \|",
    },
    "window of the compose file": {
        DEPLOY: r"`MAX_MODEL_LEN` \(([\d,]+)\)",
        "docs/install.md": r"Qwen2.5-VL-3B-Instruct-AWQ: ([\d,]+) tokens",
    },
}
DAY = 86_400
UNITS = {"MiB": 2**20, "GiB": 2**30}
PAGES = [ROOT / README, *sorted((ROOT / "docs").glob("*.md"))]
_STATED = re.compile(r"`(CHAT_PROXY_[A-Z_]+)` \((\d[\d,.]*) ?(MiB|GiB)?")


def stated(page: str, pattern: str) -> str:
    """Return the figure that a page states; it must state it once."""
    (figure,) = re.findall(pattern, (ROOT / page).read_text(encoding="utf-8"))
    return str(figure)


def number(figure: str) -> float:
    return float(figure.replace(",", ""))


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_the_same_on_every_page(name: str) -> None:
    found = {page: stated(page, pattern) for page, pattern in FIGURES[name].items()}

    assert len(set(found.values())) == 1, found


@pytest.mark.parametrize("name", ["small requests", "120 KB requests", "streams of 100 chunks"])
def test_the_throughput_is_computed_from_the_measured_time(name: str) -> None:
    row = rf"\| {name}.*? \| ([\d,]+) µs \| ([\d,]+) a second \| ([\d,]+) a second"
    ((cost, whole, half),) = re.findall(row, (ROOT / DEPLOY).read_text(encoding="utf-8"))

    assert number(whole) == pytest.approx(1e6 / number(cost), rel=0.005)
    assert number(half) == pytest.approx(5e5 / number(cost), rel=0.005)


def test_the_days_are_those_of_the_code() -> None:
    days = {
        name: number(stated(README, FIGURES[name][README])) for name in FIGURES if "days" in name
    }

    assert days == {
        "days of checkpoints": checkpoints.KEPT_SECONDS / DAY,
        "days of originals": float(defaults()["CHAT_PROXY_ARCHIVE_RETENTION_DAYS"]),
        "days of the dashboard's list": shared_chat_log.KEPT_SECONDS / DAY,
    }


def defaults() -> dict[str, str]:
    """Return the default of every setting."""
    return {it.name: it.default for section in documented_sections() for it in section.settings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_default_in_brackets_is_the_setting_s_own(page: Path) -> None:
    known = defaults()

    wrong = [
        (name, figure, unit)
        for name, figure, unit in _STATED.findall(page.read_text(encoding="utf-8"))
        if number(figure) * UNITS.get(unit, 1) != number(known[name])
    ]

    assert wrong == []


def test_defaults_in_brackets_are_found() -> None:
    found = [it for page in PAGES for it in _STATED.findall(page.read_text(encoding="utf-8"))]

    assert len(found) >= 5
