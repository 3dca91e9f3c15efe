"""While one client's long conversation is compacted, another client's chats are answered soon.

Proxy, upstream and the other client are processes of their own, as in `bench.waits`. A wait is
what proxy and upstream cause by computing, so that a busy machine makes it no longer.
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
# On an idle machine it is over 0.12 without the shorter switch interval. Seen with it: 0.02.
ALLOWED_SECONDS = 0.05
TRIES = 4


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, "-m", "bench.waits.upstream", str(port)]
    with Server(Launch(command, port, environment={"PYTHONPATH": str(APP)}), tmp_path) as server:
        yield server


def added_wait(step: Step, quiet: Step) -> float:
    """Return the longest wait beside a step, beyond the longest of a quiet time."""
    return max(step.waits) - max(quiet.waits)


@pytest.mark.timeout(600)
def test_a_small_chat_does_not_wait_for_the_compaction_of_two_megabytes(
    upstream: Server, tmp_path: Path
) -> None:
    """The best of some tries: a stall of ours is there every time, one of the machine's is not."""
    least = {"crossing": float("inf"), "folding": float("inf")}
    for number in range(TRIES):
        port, pid = upstream.launch.port, upstream.session
        steps = Journey(SIZE, f"waits-{number}", port, tmp_path, APP, pid).until_reuse()
        print({name: f"{max(step.waits) * 1000:.0f} ms" for name, step in steps.items()})  # noqa: T201
        assert steps["reuse"].label == "reused", "nothing was compacted"
        least = {
            phase: min(wait, added_wait(steps[phase], steps[QUIET]))
            for phase, wait in least.items()
        }
        if max(least.values()) <= ALLOWED_SECONDS:
            break

    assert {phase: wait for phase, wait in least.items() if wait > ALLOWED_SECONDS} == {}
