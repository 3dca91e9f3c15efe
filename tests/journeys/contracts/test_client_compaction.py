"""A client's own compaction request is sent unfolded as far as the window allows."""

import json
from typing import Any

import httpx
import pytest

from tests.support.live import eventually
from tests.support.wire_model import WireModel, history_of, wire_meeting
from tests.unit.compaction.contracts.test_client_compaction import REQUESTS

pytestmark = pytest.mark.anyio
WIRES = {
    "chat": ("/v1/chat/completions", "messages"),
    "responses": ("/v1/responses", "input"),
    "messages": ("/v1/messages", "messages"),
}


def own_compaction(wire: str, turns: int, client: str) -> dict[str, Any]:
    """A conversation whose client asks for its own compaction at the end."""
    body = history_of(wire, turns)
    body[WIRES[wire][1]].append({"role": "user", "content": REQUESTS[client]})
    return body


@pytest.mark.parametrize("client", REQUESTS)
@pytest.mark.parametrize("wire", WIRES)
async def test_it_is_unfolded_and_buys_no_summary(wire: str, client: str) -> None:
    brain = WireModel(window=8_000)
    path, key = WIRES[wire]
    async with wire_meeting(brain, summary={"wait": "trigger"}) as they:
        async with httpx.AsyncClient(base_url=they.proxy.url, trust_env=False, timeout=60) as http:
            before = history_of(wire, 14)
            folded = await http.post(path, json=before)
            assert folded.headers["x-chat-proxy-compaction"] == "built"
            bought = len(brain.summaries)

            body = own_compaction(wire, 14, client)
            answer = await http.post(path, json=body)
            explained = await http.post("/v1/chat/explain", json=body)

        assert answer.status_code == 200
        assert answer.headers["x-chat-proxy-compaction"] == "none"
        assert brain.bodies[-1][1][key] == body[key]
        assert len(brain.summaries) == bought
        assert explained.json()["client_compaction"] == client.partition(",")[0]


@pytest.mark.parametrize("wire", WIRES)
async def test_one_that_does_not_fit_is_answered_without_a_summary(wire: str) -> None:
    brain = WireModel(window=8_000)
    async with wire_meeting(brain) as they:
        async with httpx.AsyncClient(base_url=they.proxy.url, trust_env=False, timeout=60) as http:
            answer = await http.post(WIRES[wire][0], json=own_compaction(wire, 40, "codex"))

        assert answer.status_code == 200
        assert brain.summaries == []
        assert brain.refusals == 0


@pytest.mark.parametrize("wire", WIRES)
async def test_no_summary_is_prepared_for_a_client_that_compacts_before_it_is_used(
    wire: str,
) -> None:
    """The first one is bought in vain, because nobody knows the client's limit yet."""
    brain = WireModel(window=8_000)
    path, key = WIRES[wire]
    bought = []
    async with wire_meeting(brain) as they:
        jobs = they.proxy.services.compaction.summaries.jobs
        async with httpx.AsyncClient(base_url=they.proxy.url, trust_env=False, timeout=60) as http:
            for topic in ("Question", "Matter", "Riddle"):
                for turns in range(9, 14):
                    body = history_of(wire, turns)
                    await http.post(path, content=json.dumps(body).replace("Question", topic))
                    await eventually(lambda: not jobs._running and not jobs._previewing)
                body[key].append({"role": "user", "content": REQUESTS["codex"]})
                own = await http.post(path, content=json.dumps(body).replace("Question", topic))
                assert own.headers["x-chat-proxy-compaction"] == "none"
                bought.append(len(brain.summaries))

    assert bought == [1, 1, 1]
