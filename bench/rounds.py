"""The measurement itself: all contenders run side by side, and take turns."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import orjson

from bench.cpu import cpu_seconds
from bench.progress import tell
from bench.results import DIRECT, Figure
from bench.servers import REPOSITORY, Server
from bench.traffic.load import Job, Outcome
from bench.traffic.scenarios import ALONE, SMALL, Scenario, shortened

# What a server does after its last answer, such as writing its logs, belongs to the burst.
SECONDS_TO_SETTLE = 0.1


class LoadDied(Exception):
    """The load generator ended without an outcome; what it said is on stderr."""


@dataclass(frozen=True, slots=True)
class Runner:
    """A contender that is ready."""

    name: str
    server: Server


def run_rounds(
    runners: list[Runner], direct: Server, scenarios: tuple[Scenario, ...], rounds: int
) -> list[Figure]:
    """Run every contender in every scenario of every round, each round in another order."""
    for runner in runners:
        tell(f"warming {runner.name}")
        measure(runner, shortened((SMALL,))[0], 0)
    figures: list[Figure] = []
    for number in range(1, rounds + 1):
        for runner, scenario in turns(runners, direct, scenarios, number):
            tell(f"round {number} of {rounds}: {scenario.name}: {runner.name}")
            figures.append(measure(runner, scenario, number))
    return figures


def turns(
    runners: list[Runner], direct: Server, scenarios: tuple[Scenario, ...], number: int
) -> Iterator[tuple[Runner, Scenario]]:
    """Yield who runs what in a round; nobody is always first."""
    first = number % max(1, len(runners))
    for scenario in scenarios:
        if scenario.name == ALONE.name:
            yield Runner(DIRECT, direct), scenario
        for runner in runners[first:] + runners[:first]:
            yield runner, scenario


def measure(runner: Runner, scenario: Scenario, number: int) -> Figure:
    """Run one burst and charge the contender for the CPU it spent meanwhile."""
    try:
        outcome, spent = _burst(runner.server, scenario)
    except LoadDied as error:
        when = f"in round {number}, {scenario.name}"
        raise runner.server.failure(when) from error
    per_request = spent / max(1, outcome.requests) * 1e6
    return Figure(runner.name, scenario.name, number, per_request, outcome)


def _burst(server: Server, scenario: Scenario) -> tuple[Outcome, float]:
    with _load_generator() as load:
        _say(load, orjson.dumps(asdict(_job(server, scenario))).decode())
        _hear(load)
        before = cpu_seconds(server.session)
        _say(load, "go")
        outcome = Outcome(**orjson.loads(_hear(load)))
        time.sleep(SECONDS_TO_SETTLE)
        return outcome, cpu_seconds(server.session) - before


def _job(server: Server, scenario: Scenario) -> Job:
    return Job(
        port=server.launch.port,
        headers=server.launch.headers,
        kind=scenario.kind,
        connections=scenario.connections,
        seconds=scenario.seconds,
        least_requests=scenario.least_requests,
    )


@contextmanager
def _load_generator() -> Iterator[subprocess.Popen[str]]:
    load = subprocess.Popen(
        [sys.executable, "-m", "bench.traffic.load"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield load
    finally:
        load.kill()
        load.communicate()


def _say(load: subprocess.Popen[str], line: str) -> None:
    assert load.stdin is not None
    load.stdin.write(line + "\n")
    load.stdin.flush()


def _hear(load: subprocess.Popen[str]) -> str:
    assert load.stdout is not None
    line = load.stdout.readline()
    if not line:
        raise LoadDied
    return line
