"""Row B32: thousands of idle connections are closed at nobody's expense."""

import pytest

from tools.crowds.idle import longest_sweep_step

pytestmark = pytest.mark.anyio

CONNECTIONS = 2_000
# Closing all at once takes over 20 ms, in steps less than 3.
LONGEST_SECONDS = 0.005


async def test_b32_a_sweep_over_thousands_of_connections_delays_nobody() -> None:
    """`make crowds` measures 10,000."""
    assert await longest_sweep_step(CONNECTIONS) < LONGEST_SECONDS
