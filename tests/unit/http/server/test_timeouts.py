"""A connection's clock: one timer, which comes late for no wait and early for none."""

import asyncio
import socket
from math import inf

import pytest

from chat_proxy.http.server.flow import Flow
from chat_proxy.http.server.timeouts import ReceiveTimer
from chat_proxy.http.write_batch import WriteBatch
from tests.support.live import eventually, raw_client, running_proxy

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 0.05


class Waiting:
    """Waits for something, so long and no longer."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.flow = Flow(asyncio.Transport(), self.loop, WriteBatch())
        self.seconds = WAIT_SECONDS
        self.late_at: list[float] = []
        self.clock = ReceiveTimer(self, WAIT_SECONDS)

    def wait_ends(self, began: float) -> float:
        return began + self.seconds

    def on_late(self) -> None:
        self.late_at.append(self.loop.time())


@pytest.fixture
async def waiting() -> Waiting:
    return Waiting()


async def test_a_wait_that_begins_while_the_timer_runs_has_its_own_time(waiting: Waiting) -> None:
    waiting.clock.start()
    await asyncio.sleep(WAIT_SECONDS * 0.6)
    waiting.clock.start()
    began = waiting.clock.began

    await eventually(lambda: waiting.late_at)

    assert waiting.late_at[0] >= began + WAIT_SECONDS


async def test_a_wait_may_become_longer(waiting: Waiting) -> None:
    waiting.clock.start()
    waiting.seconds = WAIT_SECONDS * 3

    await eventually(lambda: waiting.late_at)

    assert waiting.late_at[0] >= waiting.clock.began + WAIT_SECONDS * 3


async def test_where_nothing_is_awaited_no_timer_runs(waiting: Waiting) -> None:
    waiting.clock.start()
    waiting.seconds = inf
    await eventually(lambda: waiting.clock._timer is None)

    waiting.seconds = WAIT_SECONDS
    waiting.clock.start()

    await eventually(lambda: waiting.late_at)


async def test_nobody_is_late_while_the_proxy_does_not_read(waiting: Waiting) -> None:
    waiting.flow.read_paused = True
    waiting.clock.start()
    await asyncio.sleep(WAIT_SECONDS * 2.5)
    assert waiting.late_at == []

    waiting.flow.read_paused = False

    await eventually(lambda: waiting.late_at)


async def test_the_kernel_gives_a_client_up_only_after_the_app_has() -> None:
    """A20: otherwise a stalled client is reported as one that has left."""
    limits = {"client_stall_seconds": 7.5}
    async with running_proxy("http://127.0.0.1:1/v1", limits=limits) as proxy, raw_client(proxy):
        await eventually(lambda: proxy.server.server_state.connections)
        [connection] = proxy.server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")

        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000


async def test_a_stopped_clock_tells_nothing(waiting: Waiting) -> None:
    waiting.clock.start()
    waiting.clock.stop()

    await asyncio.sleep(WAIT_SECONDS * 2)

    assert waiting.late_at == []
