"""Each wire has its own rows: in headers, metrics, the log line and the dashboard."""

import json
from typing import Any

import pytest

from tests.journeys.counting.conftest import Said
from tests.support.live import RawAnswer, eventually
from tests.support.meeting import Meeting
from tests.support.wire_model import PATHS, Fields, WireModel, history_of, post, wire_meeting

pytestmark = pytest.mark.anyio

NAMES = sorted(PATHS)


async def sent(met: Meeting, wire: str, fields: Fields, *headers: str) -> RawAnswer:
    await met.client.send(post(PATHS[wire], json.dumps(fields).encode(), *headers))
    answer = await met.client.answer()
    assert answer.status == 200, answer.body
    return answer


def compactions(met: Meeting, wire: str, outcome: str) -> float:
    labels = f'mode="on",outcome="{outcome}",wire="{wire}"'
    return met.figure(f"chat_proxy_compactions_total{{{labels}}}")


def rows(met: Meeting) -> list[dict[str, Any]]:
    return met.proxy.services.chat_log.history.own.rows()


@pytest.mark.parametrize("wire", NAMES)
async def test_a_compacted_request_is_told_on_every_wire(wire: str) -> None:
    brain = WireModel()
    async with wire_meeting(brain) as met:
        answer = await sent(met, wire, history_of(wire, 14))

        await eventually(lambda: rows(met))
        [row] = rows(met)
        assert compactions(met, wire, "built") == 1

    headers = answer.headers
    before, after = (int(headers[f"x-chat-proxy-tokens-{name}"]) for name in ("before", "after"))
    assert after < 4_096 < before
    assert headers["x-chat-proxy-compaction"] == "built"
    assert headers["x-chat-proxy-stages"].split(",")[0] == "summary"
    assert (row["wire"], row["compaction"], row["tokens"]) == (wire, "built", [before, after])
    assert (row["window"], row["has_detail"]) == (4_096, True)
    assert row["prompt_tokens"] > 0
    assert brain.refusals == 0


@pytest.mark.parametrize("wire", NAMES)
async def test_the_log_line_names_the_wire(wire: str, said: Said) -> None:
    async with wire_meeting(WireModel()) as met:
        await sent(met, wire, history_of(wire, 1))
        await eventually(lambda: rows(met))

    [line] = said("request")
    assert (line["route"], line["wire"]) == (PATHS[wire], wire)
    assert (line["mode"], line["compaction"]) == ("on", "none")


@pytest.mark.parametrize("wire", NAMES)
async def test_the_mode_of_a_request_can_be_lowered_on_every_wire(wire: str) -> None:
    brain = WireModel(window=100_000)
    async with wire_meeting(brain, budget={"context_window": 4_096}) as met:
        off = await sent(met, wire, history_of(wire, 14), "x-chat-proxy-mode: off")
        observed = await sent(met, wire, history_of(wire, 14), "x-chat-proxy-mode: observe")

    assert off.headers["x-chat-proxy-compaction"] == "off"
    assert observed.headers["x-chat-proxy-compaction"] != "none"
    assert [body for _, body in brain.bodies] == [history_of(wire, 14)] * 2


@pytest.mark.parametrize(
    "stored",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"input": [{"type": "item_reference", "id": "msg_1"}]},
    ],
)
async def test_a_history_that_the_upstream_stores_is_never_guessed(stored: Fields) -> None:
    fields = {**history_of("responses", 14), **stored}
    brain = WireModel(window=100_000)
    async with wire_meeting(brain, budget={"context_window": 4_096}) as met:
        answer = await sent(met, "responses", fields)

        assert met.figure('chat_proxy_compaction_skipped_total{reason="stored_history"}') == 1
        await eventually(lambda: rows(met))
        assert compactions(met, "responses", "off") == 1

    assert answer.headers["x-chat-proxy-compaction"] == "off"
    assert "x-chat-proxy-tokens-before" not in answer.headers
    assert brain.bodies == [("/v1/responses", fields)]
