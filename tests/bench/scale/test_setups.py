from pathlib import Path

from bench.scale.setups import SETUPS, measure
from bench.traffic.payloads import TURNS


def test_replicas_compact_a_conversation_and_none_of_its_requests_fails(tmp_path: Path) -> None:
    found = measure(SETUPS[-1], chats=1, rounds=1, folder=tmp_path)

    assert found.requests == TURNS
    assert found.errors == {}
    assert found.side_queries > 0
    assert found.cpu_seconds > 0
    assert set(found.compactions) & {"built", "reused"}
