"""The malicious tenant beside a polite one, for some seconds."""

import pytest

from tools.malice.__main__ import report
from tools.malice.run import malice

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

MOST_RATIO = 10.0
"""Far more than `python -m tools.malice` allows: other tests run at the same time."""
MOST_BYTES = 1_250_000_000


async def test_a_polite_tenant_loses_no_answer_beside_a_malicious_one() -> None:
    outcome = await malice(3, 6)

    assert outcome.attacked.lost == [], report(outcome)
    assert outcome.ratio < MOST_RATIO, report(outcome)
    assert outcome.rss_most < MOST_BYTES, report(outcome)
    assert outcome.statuses[503] > 0
