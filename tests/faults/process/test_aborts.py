"""Rows A17-A19, E5: clients that leave cost nothing that stays (crowds.py has the full size)."""

import pytest

from tools.crowds.run import aborts

pytestmark = pytest.mark.anyio

TIMES = 450
NOISE_BYTES = 1_500_000
"""What a young process still takes in; at full size 64 bytes an abort are all it may grow."""


async def test_a17_a18_a19_e5_many_clients_that_leave_cost_nothing_that_stays() -> None:
    before, after = await aborts(TIMES, warm_up=150)

    assert after.rss - before.rss < NOISE_BYTES + 64 * TIMES
    assert after.descriptors <= before.descriptors
    assert after.tasks <= before.tasks
