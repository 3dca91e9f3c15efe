"""F10: the proxy fetches nothing that a request names, in a network where that would show."""

import asyncio
import json
import sys

import pytest

from tests.faults.security.no_fetches import ADDRESSES, ROUTES
from tests.support.command import ROOT, environment

pytestmark = pytest.mark.anyio

SCRIPT = "tests.faults.security.no_fetches"


async def test_f10_no_address_in_a_request_is_ever_fetched() -> None:
    """F10: in a network of its own where every address answers and is counted."""
    process = await asyncio.create_subprocess_exec(
        *("unshare", "--map-root-user", "--net", sys.executable, "-m", SCRIPT),
        env=environment({}) | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)

    assert process.returncode == 0, err.decode()
    told = json.loads(out)
    assert told["trap_works"]
    assert told["caught"] == 0
    assert told["strangers"] == []
    assert told["resolved"] == []
    assert len(told["statuses"]) == len(ADDRESSES) * len(ROUTES) + 1
    assert set(told["statuses"]) <= {200, 502}
