"""The kinds of load, and how long a burst of each lasts."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of request on a number of connections.

    A burst lasts these seconds; a slow contender goes on until it has answered enough requests
    for its figures to mean something.
    """

    name: str
    kind: str
    connections: int
    seconds: float
    least_requests: int


ALONE = Scenario("small, 1 connection", "small", 1, 1.2, 200)
SMALL = Scenario("small, 16 connections", "small", 16, 1.5, 320)
CROWD = Scenario("small, 256 connections", "small", 256, 1.5, 512)
LARGE = Scenario("120 KB, growing, 16 conn.", "growing", 16, 1.5, 160)
STREAM = Scenario("100-chunk stream, 16 conn.", "stream", 16, 2.0, 64)

ALL = (ALONE, SMALL, CROWD, LARGE, STREAM)


def shortened(scenarios: tuple[Scenario, ...]) -> tuple[Scenario, ...]:
    """Return the same scenarios for a smoke test; the names stay, the figures are rough."""
    return tuple(
        replace(scenario, seconds=0.2, least_requests=scenario.connections)
        for scenario in scenarios
    )
