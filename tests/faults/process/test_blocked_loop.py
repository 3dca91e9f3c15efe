"""Row E9: an event loop that stands still."""

import asyncio
import io
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from chat_proxy.telemetry import loop_watchdog
from chat_proxy.telemetry.logs import configure_logging
from chat_proxy.telemetry.loop_watchdog import STUCK_EXIT_CODE, LoopWatchdog, places_in
from chat_proxy.telemetry.metrics import Metrics
from tests.support.live import eventually, http_client, raw_client, running_proxy

NOWHERE = "http://127.0.0.1:1/v1"
LIVE = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    configure_logging("warning", "json", stream)
    yield stream
    configure_logging("error", "json", sys.stderr)


def lines(log: io.StringIO, sentence: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in log.getvalue().splitlines()]
    return [line for line in found if line["message"] == sentence]


def block_until_told(log: io.StringIO, seconds: float) -> None:
    """Hold the event loop up until the log says so, and a little longer."""
    secret_value = "canary"
    began = time.monotonic()
    while not lines(log, "the event loop is blocked") and time.monotonic() < began + seconds:
        time.sleep(0.01)
    time.sleep(3 * loop_watchdog.BEAT_SECONDS)
    assert secret_value


@pytest.mark.anyio
async def test_e9_a_loop_blocked_for_two_seconds_is_told_once_with_its_place(
    log: io.StringIO,
) -> None:
    opened = time.monotonic()
    async with running_proxy(NOWHERE) as proxy, http_client(proxy) as client:
        await client.get("/livez")
        began = time.monotonic()
        block_until_told(log, 60)
        await eventually(lambda: lines(log, "the event loop runs again"))
        ended = time.monotonic()
        answer = await client.get("/livez")
        figures = (await client.get("/metrics")).text

    # A busy machine may block it as well, elsewhere and for a shorter time.
    blocked, again = (lines(log, f"the event loop {it}") for it in ("is blocked", "runs again"))
    [line] = [it for it in blocked if it["at"][-1].endswith(" block_until_told")]
    after = max(again, key=lambda it: it["blocked_seconds"])
    assert len(again) == len(blocked)
    assert ended - began > 2
    assert line["level"] == "error"
    assert line["at"][-1].startswith("test_blocked_loop.py:")
    assert "canary" not in log.getvalue()
    assert 2 <= after["blocked_seconds"] <= ended - opened
    assert answer.status_code == 200
    assert 'chat_proxy_loop_lag_seconds_bucket{le="+Inf"}' in figures


@pytest.mark.anyio
async def test_e9_liveness_fails_when_the_loop_stood_still_for_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For a moment: a loop that moves again is alive. Ten seconds are as many looks here."""
    monkeypatch.setattr(loop_watchdog, "BEAT_SECONDS", 0.05)
    async with running_proxy(NOWHERE) as proxy, raw_client(proxy) as client:
        await client.send(LIVE)
        before = await client.answer()
        await client.send(LIVE)
        time.sleep(20 * loop_watchdog.BEAT_SECONDS + 0.2)  # noqa: ASYNC251 - that is the fault
        stuck = await client.answer()
        async with asyncio.timeout(60):
            while proxy.services.loop_watchdog.is_stuck:  # noqa: ASYNC110 - a beat has no Event
                await asyncio.sleep(0.01)
        await client.send(LIVE)
        after = await client.answer()

    assert (before.status, stuck.status, after.status) == (200, 503, 200)
    assert json.loads(stuck.body) == {"status": "stuck"}


def be_stuck() -> None:
    """Stand still as a worker whose parent replaces it."""
    loop_watchdog.BEAT_SECONDS = 0.02

    async def stand_still() -> None:
        LoopWatchdog(Metrics(), ends_process=True).open()
        time.sleep(400)  # noqa: ASYNC251 - that is the fault

    asyncio.run(stand_still())


def test_e9_a_worker_that_is_stuck_ends_to_be_replaced() -> None:
    process = multiprocessing.get_context("spawn").Process(target=be_stuck)
    process.start()
    process.join(300)

    assert process.exitcode == STUCK_EXIT_CODE


def test_e9_a_thread_that_is_gone_has_no_place() -> None:
    assert places_in(None) == []
