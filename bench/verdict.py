"""The targets of chat-proxy, and whether a run met them."""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.contenders import BARE_RELAY, CHAT_PROXY, CHAT_PROXY_OFF, NGINX
from bench.peers.headroom import HEADROOM
from bench.peers.litellm import LITELLM
from bench.peers.portkey import PORTKEY
from bench.results import Results
from bench.traffic.scenarios import LARGE, SMALL, STREAM, Scenario

IDLE_MEGABYTES = 90
READY_SECONDS = 1.5
ADDED_MICROSECONDS = 1_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target with its figure, both as text; `met` is None when it was not measured."""

    target: str
    figure: str
    met: bool | None

    @property
    def word(self) -> str:
        """The judgement in a word."""
        return {True: "ok", False: "short", None: "not measured"}[self.met]


def verdicts(results: Results) -> Iterator[Verdict]:
    """Yield every target with what this run says of it: the plain relay, then with counting."""
    for who in (CHAT_PROXY_OFF, CHAT_PROXY):
        yield _at_most(results, who, NGINX, SMALL, 10)
        yield _at_most(results, who, BARE_RELAY, SMALL, 1.5)
        yield _at_most_a_part(results, who, LITELLM, SMALL, 30)
        yield _at_most_a_part(results, who, PORTKEY, SMALL, 8)
        yield _at_most_a_part(results, who, HEADROOM, SMALL, 20)
        yield _at_most(results, who, NGINX, LARGE, 10)
        yield _at_most(results, who, NGINX, STREAM, 4)
        yield _added(results, who)
        yield _memory(results, who)
        yield _start(results, who)


def _at_most(results: Results, who: str, other: str, scenario: Scenario, limit: float) -> Verdict:
    target = f"{who}: CPU, {scenario.name} ≤ {limit:g} x {other}"
    ratio = results.ratio(who, other, scenario)
    if ratio is None:
        return Verdict(target, "", None)
    return Verdict(target, f"{ratio:.2f} x", ratio <= limit)


def _at_most_a_part(
    results: Results, who: str, other: str, scenario: Scenario, part: float
) -> Verdict:
    target = f"{who}: CPU, {scenario.name} ≤ 1/{part:g} of {other}"
    times = results.ratio(other, who, scenario)
    if times is None:
        return Verdict(target, "", None)
    return Verdict(target, f"1/{times:.1f}", times >= part)


def _added(results: Results, who: str) -> Verdict:
    target = f"{who}: added p50, 1 connection ≤ {ADDED_MICROSECONDS:,} µs"
    added = results.added_latency(who, "p50_us")
    if added is None:
        return Verdict(target, "", None)
    return Verdict(target, f"{added:,.0f} µs", added <= ADDED_MICROSECONDS)


def _memory(results: Results, who: str) -> Verdict:
    target = f"{who}: idle memory ≤ {IDLE_MEGABYTES} MB"
    entry = results.entry(who)
    if entry is None:
        return Verdict(target, "", None)
    megabytes = entry.idle_bytes / 1e6
    return Verdict(target, f"{megabytes:.1f} MB", megabytes <= IDLE_MEGABYTES)


def _start(results: Results, who: str) -> Verdict:
    target = f"{who}: ready in ≤ {READY_SECONDS:g} s"
    entry = results.entry(who)
    if entry is None:
        return Verdict(target, "", None)
    seconds = min(entry.ready_seconds)
    return Verdict(target, f"{seconds:.2f} s", seconds <= READY_SECONDS)
