"""Every parameter of both APIs about context does what it promises, before any engine.

The same probes are asked of neighbours by `python -m tools.contracts`.
"""

import pytest

from tests.support.wires import messages_engines, responses_engines
from tests.support.wires.messages_engines import KINDS, Kind
from tools.contracts import messages_probes, responses_probes
from tools.contracts.probe import YES, Probe, verdict

pytestmark = pytest.mark.anyio
ENGINES = pytest.mark.parametrize("kind", KINDS)


def asked(probes: tuple[Probe, ...]) -> pytest.MarkDecorator:
    """Every probe with whole answers and with streamed ones."""
    cases = [
        pytest.param(probe, streams, id=f"{probe.asks.__name__}-{'stream' if streams else 'whole'}")
        for probe in probes
        for streams in probe.ways
    ]
    return pytest.mark.parametrize(("probe", "streams"), cases)


@ENGINES
@asked(messages_probes.PROBES)
async def test_a_parameter_of_messages_is_kept(*, probe: Probe, streams: bool, kind: Kind) -> None:
    async with messages_engines.open_desk(messages_engines.Engine(kind), streams=streams) as desk:
        assert await verdict(probe.asks, desk) == YES


@ENGINES
@asked(responses_probes.PROBES)
async def test_a_parameter_of_responses_is_kept(*, probe: Probe, streams: bool, kind: Kind) -> None:
    async with responses_engines.open_desk(kind, streams=streams) as desk:
        assert await verdict(probe.asks, desk) == YES
