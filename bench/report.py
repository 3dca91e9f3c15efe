"""The results as text."""

from collections.abc import Iterable, Iterator

from bench.contenders import BARE_RELAY, CHAT_PROXY, NGINX
from bench.peers.headroom import HEADROOM
from bench.peers.litellm import LITELLM
from bench.peers.portkey import PORTKEY
from bench.results import Entry, Results
from bench.traffic.scenarios import ALL, SMALL, Scenario
from bench.verdict import verdicts

_LABEL, _CELL = 32, 19


def report(results: Results) -> str:
    """Return the whole report."""
    sections = [_heading, _table, _absent, _ratios, _verdict, _errors]
    return "\n".join(line for section in sections for line in section(results))


def _heading(results: Results) -> Iterator[str]:
    facts = results.facts
    yield (
        f"chat-proxy benchmark, {facts['date']}: {facts['cores']} cores ({facts['processor']}), "
        f"Python {facts['python']}, rounds: {facts['rounds']}"
    )
    for entry in results.entries:
        yield f"  {entry.name} {entry.version}"


def _table(results: Results) -> Iterator[str]:
    present = [entry for entry in results.entries if not entry.unavailable]
    names = [entry.name for entry in present]
    yield ""
    yield _row("median (min) of the rounds", names)
    yield "CPU per request, µs"
    for scenario in ALL:
        yield _row(f"  {scenario.name}", [_cpu(results, name, scenario) for name in names])
    yield "added latency, 1 connection, µs"
    for label, percentile in (("p50", "p50_us"), ("p99", "p99_us")):
        yield _row(f"  {label}", [_added(results, name, percentile) for name in names])
    yield "requests per second"
    for scenario in ALL:
        yield _row(f"  {scenario.name}", [_number(results.rate(name, scenario)) for name in names])
    yield from _process_rows(present)


def _process_rows(present: list[Entry]) -> Iterator[str]:
    yield "process"
    yield _row("  ready after, s (best)", [f"{min(e.ready_seconds):.2f}" for e in present])
    yield _row("  resident when idle, MB", [f"{e.idle_bytes / 1e6:.1f}" for e in present])
    yield _row("  resident after the load, MB", [f"{e.loaded_bytes / 1e6:.1f}" for e in present])


def _absent(results: Results) -> Iterator[str]:
    for entry in results.entries:
        if entry.unavailable:
            yield f"!! {entry.name} not available: {entry.unavailable}"


def _ratios(results: Results) -> Iterator[str]:
    if results.cpu(CHAT_PROXY, SMALL) is None:
        return
    yield ""
    peers = (LITELLM, PORTKEY, HEADROOM)
    columns = ["x nginx", "x bare relay", *(f"1/x of {peer}" for peer in peers)]
    yield _row("CPU of chat-proxy", columns)
    for scenario in ALL:
        times = [results.ratio(CHAT_PROXY, other, scenario) for other in (NGINX, BARE_RELAY)]
        parts = [results.ratio(other, CHAT_PROXY, scenario) for other in peers]
        cells = [f"{r:.2f} x" if r else "-" for r in times]
        yield _row(f"  {scenario.name}", cells + [f"1/{r:.1f}" if r else "-" for r in parts])


def _verdict(results: Results) -> Iterator[str]:
    yield ""
    yield "verdict"
    for verdict in verdicts(results):
        yield f"  {verdict.target:<64}{verdict.figure:>12}  {verdict.word}"


def _errors(results: Results) -> Iterator[str]:
    complaints = results.complaints()
    if complaints:
        yield ""
        yield "!! ERRORS: the bursts below do not count, and this run has failed"
        yield from (f"!!   {line}" for line in complaints)


def _row(label: str, cells: Iterable[str]) -> str:
    return f"{label:<{_LABEL}}" + "".join(f"{cell:>{_CELL}}" for cell in cells)


def _cpu(results: Results, name: str, scenario: Scenario) -> str:
    return _pair(results.cpu(name, scenario), results.cpu(name, scenario, min))


def _added(results: Results, name: str, percentile: str) -> str:
    middle = results.added_latency(name, percentile)
    return _pair(middle, results.added_latency(name, percentile, min))


def _pair(middle: float | None, least: float | None) -> str:
    return f"{_number(middle)} ({_number(least)})"


def _number(value: float | None) -> str:
    if value is None:
        return "failed"
    return f"{value:,.1f}" if abs(value) < 1_000 else f"{value:,.0f}"
