"""Ending an exchange from outside: deadlines, reasons, and cancellations that are not ours."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from contextlib import suppress

import pytest

from chat_proxy.errors import (
    ClientGone,
    ProxyError,
    ServerShuttingDown,
    UpstreamFirstByteTimeout,
    UpstreamIdleTimeout,
    UpstreamTotalTimeout,
)
from chat_proxy.proxy.lifecycle.admission import Drain
from chat_proxy.proxy.lifecycle.cancellation import Cancellation, Deadlines, Watchdog

pytestmark = pytest.mark.anyio


class Body:
    """Something that a request holds."""


async def reason_of(interrupt: Cancellation, seconds: float = 5) -> ProxyError | None:
    """Wait inside the block and return what ended it."""
    try:
        with interrupt:
            await asyncio.sleep(seconds)
    except ProxyError as error:
        return error
    return None


def soon(step: Callable[[], None], seconds: float = 0.01) -> None:
    asyncio.get_running_loop().call_later(seconds, step)


async def test_the_first_reason_counts() -> None:
    interrupt = Cancellation()
    first, second = ClientGone(), ServerShuttingDown()
    soon(lambda: interrupt.stop(first))
    soon(lambda: interrupt.stop(second))

    assert await reason_of(interrupt) is first


async def test_what_was_stopped_is_freed_without_a_garbage_collection() -> None:
    """What a request holds, its body above all, must not wait for a full collection."""
    interrupt = Cancellation()
    body = Body()
    left = weakref.ref(body)

    async def hold(held: Body, block: Cancellation) -> None:
        with suppress(ClientGone), block:
            await asyncio.sleep(5)
        assert held

    soon(lambda: interrupt.stop(ClientGone()))
    gc.disable()
    try:
        await asyncio.create_task(hold(body, interrupt))
        del body
        await asyncio.sleep(0)

        assert left() is None
    finally:
        gc.enable()


async def test_the_task_lives_on_behind_the_block() -> None:
    interrupt = Cancellation()
    soon(lambda: interrupt.stop(ClientGone()))
    await reason_of(interrupt)

    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)
    async with asyncio.timeout(1):
        await asyncio.sleep(0)


async def test_stopping_before_or_behind_the_block_does_nothing() -> None:
    interrupt = Cancellation()
    interrupt.stop(ClientGone())
    assert await reason_of(interrupt, 0) is None

    interrupt.stop(ClientGone())
    await asyncio.sleep(0)
    assert interrupt.reason is None


async def test_an_error_of_the_body_passes() -> None:
    with pytest.raises(KeyError), Cancellation():
        raise KeyError


async def test_a_cancellation_from_outside_is_not_swallowed() -> None:
    interrupt = Cancellation()
    task = asyncio.create_task(reason_of(interrupt))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("ours_first", [True, False])
async def test_a_cancellation_from_outside_outweighs_our_reason(ours_first: bool) -> None:
    interrupt = Cancellation()
    task = asyncio.create_task(reason_of(interrupt))
    await asyncio.sleep(0)
    if ours_first:
        interrupt.stop(ClientGone())
    task.cancel()
    if not ours_first:
        interrupt.stop(ClientGone())

    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_a_timeout_around_the_block_still_works() -> None:
    interrupt = Cancellation()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await reason_of(interrupt)


async def test_a_timeout_inside_the_block_still_works() -> None:
    interrupt = Cancellation()
    soon(lambda: interrupt.stop(ClientGone()), 0.02)

    async def body() -> None:
        with interrupt:
            try:
                async with asyncio.timeout(0.005):
                    await asyncio.sleep(5)
            except TimeoutError:
                await asyncio.sleep(5)

    with pytest.raises(ClientGone):
        await body()


class MonitoredStore:
    """A block with a watchdog in it."""

    def __init__(self, total: float, first: float, deadlines: Deadlines | None = None) -> None:
        self.interrupt = Cancellation()
        watch = deadlines or Deadlines()
        self.dog = Watchdog(self.interrupt, watch, total, first, UpstreamFirstByteTimeout)
        self.loop = asyncio.get_running_loop()
        self.start = self.loop.time()

    async def ends(self) -> tuple[type[ProxyError] | None, float]:
        """Return with which error the block ends, and when."""
        reason = await reason_of(self.interrupt, 1)
        self.dog.close()
        return (type(reason) if reason else None), self.loop.time() - self.start


async def test_a_step_that_takes_too_long_ends_with_its_error() -> None:
    watched = MonitoredStore(total=5, first=0.05)

    reason, seconds = await watched.ends()

    assert reason is UpstreamFirstByteTimeout
    assert 0.04 < seconds < 0.3


async def test_a_deadline_can_move_away() -> None:
    watched = MonitoredStore(total=5, first=0.05)
    for tenths in range(1, 5):
        soon(lambda: watched.dog.expect(0.05, UpstreamIdleTimeout), tenths * 0.03)

    reason, seconds = await watched.ends()

    assert reason is UpstreamIdleTimeout
    assert 0.15 < seconds < 0.4


async def test_a_deadline_can_come_nearer() -> None:
    watched = MonitoredStore(total=5, first=3)
    soon(lambda: watched.dog.expect(0.02, UpstreamIdleTimeout), 0.02)

    reason, seconds = await watched.ends()

    assert reason is UpstreamIdleTimeout
    assert seconds < 0.3


async def test_the_whole_has_a_limit_however_often_its_steps_move() -> None:
    watched = MonitoredStore(total=0.1, first=0.05)
    for hundredths in range(1, 30):
        soon(lambda: watched.dog.expect(0.05, UpstreamIdleTimeout), hundredths * 0.01)

    reason, seconds = await watched.ends()

    assert reason is UpstreamTotalTimeout
    assert 0.09 < seconds < 0.3


async def test_a_closed_watchdog_is_silent() -> None:
    watched = MonitoredStore(total=0.05, first=0.02)
    watched.dog.close()

    assert await reason_of(watched.interrupt, 0.1) is None


async def test_many_exchanges_end_each_in_its_time_by_one_timer() -> None:
    deadlines = Deadlines()
    late, soonest, never, middle = (
        MonitoredStore(5, seconds, deadlines) for seconds in (0.15, 0.05, 5, 0.1)
    )
    never.dog.expect(3, UpstreamIdleTimeout)

    found = await asyncio.gather(*(watched.ends() for watched in (late, soonest, middle)))

    assert {reason for reason, _ in found} == {UpstreamFirstByteTimeout}
    (_, third), (_, first), (_, second) = found
    assert 0.04 < first < second < third < 0.4
    assert never.interrupt.reason is None
    assert deadlines.fires_at > asyncio.get_running_loop().time() + 2


async def test_nothing_is_looked_at_once_it_is_closed() -> None:
    deadlines = Deadlines()
    watched = MonitoredStore(total=5, first=0.02, deadlines=deadlines)
    deadlines.close()

    assert await reason_of(watched.interrupt, 0.1) is None


async def test_a_drain_ends_what_runs_and_refuses_what_comes() -> None:
    drain, running, over = Drain(), Cancellation(), Cancellation()
    drain.enter(running)
    drain.enter(over)
    drain.leave(over)
    drain.begin()
    assert drain.is_stopping
    drain.enter(Cancellation())
    soon(drain.interrupt_all)

    assert isinstance(await reason_of(running), ServerShuttingDown)
    drain.refuse_work()
    with pytest.raises(ServerShuttingDown):
        drain.enter(Cancellation())
