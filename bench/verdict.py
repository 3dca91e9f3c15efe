"""The targets of chat-proxy, and whether a run met them."""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.contenders import BARE_RELAY, CHAT_PROXY, NGINX
from bench.peers import LITELLM, PORTKEY
from bench.results import Results
from bench.scenarios import SMALL, STREAM, Scenario

IDLE_MEGABYTES = 90
READY_SECONDS = 1.5


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
    """Yield every target of the project with what this run says of it."""
    yield _at_most(results, NGINX, SMALL, 12)
    yield _at_most(results, BARE_RELAY, SMALL, 1.5)
    yield _at_most_a_part(results, LITELLM, SMALL, 25)
    yield _at_most_a_part(results, PORTKEY, SMALL, 6)
    yield _at_most(results, NGINX, STREAM, 4)
    yield _memory(results)
    yield _start(results)


def _at_most(results: Results, other: str, scenario: Scenario, limit: float) -> Verdict:
    target = f"CPU, {scenario.name} ≤ {limit:g} x {other}"
    ratio = results.ratio(CHAT_PROXY, other, scenario)
    if ratio is None:
        return Verdict(target, "", None)
    return Verdict(target, f"{ratio:.2f} x", ratio <= limit)


def _at_most_a_part(results: Results, other: str, scenario: Scenario, part: float) -> Verdict:
    target = f"CPU, {scenario.name} ≤ 1/{part:g} of {other}"
    times = results.ratio(other, CHAT_PROXY, scenario)
    if times is None:
        return Verdict(target, "", None)
    return Verdict(target, f"1/{times:.1f}", times >= part)


def _memory(results: Results) -> Verdict:
    target = f"idle memory ≤ {IDLE_MEGABYTES} MB"
    entry = results.entry(CHAT_PROXY)
    if entry is None:
        return Verdict(target, "", None)
    megabytes = entry.idle_bytes / 1e6
    return Verdict(target, f"{megabytes:.1f} MB", megabytes <= IDLE_MEGABYTES)


def _start(results: Results) -> Verdict:
    target = f"ready in ≤ {READY_SECONDS:g} s"
    entry = results.entry(CHAT_PROXY)
    if entry is None:
        return Verdict(target, "", None)
    seconds = min(entry.ready_seconds)
    return Verdict(target, f"{seconds:.2f} s", seconds <= READY_SECONDS)
