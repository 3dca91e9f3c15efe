"""The page about waits: one table, with what was before if that was measured too."""

from collections.abc import Callable, Iterator, Sequence

from bench.machine import machine_facts
from bench.waits.journey import PHASES, QUIET, Step
from bench.waits.other_client import SECONDS_BETWEEN_REQUESTS

NOW = "now"
GOALS_MS = {100_000: 10, 500_000: 10, 2_000_000: 10, 10_000_000: 70}

Found = dict[int, dict[str, list[dict[str, Step]]]]
"""The steps of each round, by size of the conversation and checkout."""

_HEAD = """\
# How long clients wait

Written by `python -m bench.waits` on {date}, {processor}, {cores} cores,
Python {python}. Best of {rounds} rounds, {order}. Load average at the end: {load:.1f};
where it is over the number of cores, other programs took part of them, and waits are longer.

One client sends a conversation of an agent, {sizes}, to a proxy with a store
on disk. A second one, in a process of its own, sends a small chat every {pause:.0f} ms. The
upstream answers both at once.

| phase | what happens |
|---|---|
| {quiet} | the second client is alone |
| cold | the first request of the conversation, below the trigger |
| warm | the next one, two messages longer |
| crossing | one that is over the trigger: it is sent as it is, and a summary is written beside it |
| folding | the next one: the older messages are folded |
| reuse | the next one: the same fold is found again and repeated |
| after restart | the next one, in a new process that has only the store |

*Own wait*: what the proxy adds to the answer of the client that sends the conversation. *Other's
worst* and *p99*: how long the answers to the second client take until the proxy has no more work
with the request, from the moment they were due. *CPU*: of the proxy in this time, both clients
together. All in ms.
"""


def page(found: Found, names: Sequence[str]) -> str:
    """Return the page."""
    facts = machine_facts()
    rounds = max(len(rounds) for by_name in found.values() for rounds in by_name.values())
    head = _HEAD.format(
        date=facts["date"][:10],
        processor=facts["processor"],
        cores=facts["cores"],
        python=facts["python"],
        load=facts["load_average_before"],
        rounds=rounds,
        order="both versions in turn" if len(names) > 1 else "one after the other",
        sizes=", ".join(map(_size, found)),
        pause=SECONDS_BETWEEN_REQUESTS * 1e3,
        quiet=QUIET,
    )
    return "\n".join([head, *_table(found, names), "", *_goals(found), ""])


def misses(found: Found) -> dict[int, float]:
    """Return the sizes at which the other client waits longer than it may, with that wait."""
    waits = {size: _longest_wait(by_name[NOW]) for size, by_name in found.items()}
    return {size: wait for size, wait in waits.items() if wait > GOALS_MS[size]}


def _table(found: Found, names: Sequence[str]) -> Iterator[str]:
    columns = [
        f"{figure}{'' if len(names) == 1 else f', {name}'}" for figure in _FIGURES for name in names
    ]
    yield f"| size | phase | {' | '.join(columns)} |"
    yield "|---" * (2 + len(columns)) + "|"
    for size, by_name in found.items():
        for phase in (QUIET, *PHASES):
            cells = [
                _best(by_name[name], phase, read) for read in _FIGURES.values() for name in names
            ]
            yield f"| {_size(size)} | {phase} | {' | '.join(cells)} |"


def _goals(found: Found) -> Iterator[str]:
    missed = misses(found)
    for size, by_name in found.items():
        wait = _longest_wait(by_name[NOW])
        verdict = "missed" if size in missed else "kept"
        yield f"* {_size(size)}: the other client's worst wait is {wait:.1f} ms;"
        yield f"  the goal of {GOALS_MS[size]} ms is {verdict}."


def _longest_wait(rounds: list[dict[str, Step]]) -> float:
    """Return the longest wait of all phases, of each the best round."""
    return max(min(_worst(steps[phase]) for steps in rounds) for phase in PHASES)


def _best(rounds: list[dict[str, Step]], phase: str, read: Callable[[Step], float]) -> str:
    """Return the best round: what the proxy does is there every time, what others do is not."""
    if phase == QUIET and read not in (_worst, _p99):
        return ""
    return f"{min(read(steps[phase]) for steps in rounds):,.1f}"


def _own(step: Step) -> float:
    return step.own * 1e3


def _worst(step: Step) -> float:
    return max(step.waits) * 1e3


def _p99(step: Step) -> float:
    return sorted(step.waits)[int(len(step.waits) * 0.99)] * 1e3


def _cpu(step: Step) -> float:
    return step.cpu * 1e3


def _size(size: int) -> str:
    return f"{size / 1e6:g} MB" if size >= 1_000_000 else f"{size // 1000} KB"


_FIGURES: dict[str, Callable[[Step], float]] = {
    "own wait": _own,
    "other's worst": _worst,
    "p99": _p99,
    "CPU": _cpu,
}
