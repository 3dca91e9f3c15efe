"""While one client's long conversation is compacted, another client's chats are answered soon.

Proxy, upstream and the other client are processes of their own, as in `bench.waits`.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.servers import Launch, Server, free_port
from bench.waits.journey import QUIET, Journey, Step
from chat_proxy import __file__ as package_file

APP = Path(package_file).parent.parent
SIZE = 2_000_000
# Without the shorter switch interval it is over 0.12; beside three other workers, 0.05 was seen.
ALLOWED_SECONDS = 0.08
TRIES = 6


@pytest.fixture
def upstream_port(tmp_path: Path) -> Iterator[int]:
    port = free_port()
    command = [sys.executable, "-m", "bench.waits.upstream", str(port)]
    with Server(Launch(command, port, environment={"PYTHONPATH": str(APP)}), tmp_path):
        yield port


def added_wait(step: Step, quiet: Step) -> float:
    """Return the longest wait beside a step, beyond the longest of a quiet time."""
    return max(step.waits) - max(quiet.waits)


@pytest.mark.timeout(600)
def test_a_small_chat_does_not_wait_for_the_compaction_of_two_megabytes(
    upstream_port: int, tmp_path: Path
) -> None:
    """The best of some tries: a stall of ours is there every time, one of the machine's is not."""
    least = {"crossing": float("inf"), "folding": float("inf")}
    for number in range(TRIES):
        journey = Journey(SIZE, f"waits-{number}", upstream_port, tmp_path, APP)
        steps = journey.until_reuse()
        assert steps["reuse"].label == "reused", "nothing was compacted"
        least = {
            phase: min(wait, added_wait(steps[phase], steps[QUIET]))
            for phase, wait in least.items()
        }
        if max(least.values()) <= ALLOWED_SECONDS:
            break

    assert {phase: wait for phase, wait in least.items() if wait > ALLOWED_SECONDS} == {}
