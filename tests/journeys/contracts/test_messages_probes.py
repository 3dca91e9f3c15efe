"""Every parameter of the Messages API about context does what it promises, before any engine.

The same probes are asked of neighbours by `python -m tools.contracts`.
"""

import pytest

from tests.support.wires.engines import KINDS, Engine, Kind, open_desk
from tools.contracts.probes import PROBES, Probe, verdict

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.asks.__name__)
async def test_the_proxy_keeps_what_a_parameter_promises(probe: Probe, kind: Kind) -> None:
    async with open_desk(Engine(kind)) as desk:
        assert await verdict(probe, desk) == "yes"
