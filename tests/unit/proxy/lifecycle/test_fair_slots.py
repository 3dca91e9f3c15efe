"""Tenants who wait for a slot take turns."""

import asyncio

import pytest

from chat_proxy.proxy.lifecycle.fair_slots import FairSlots

pytestmark = pytest.mark.anyio


class Queue:
    """One slot that is taken, and those who wait for it."""

    def __init__(self) -> None:
        self.slots = FairSlots(1)
        self.served: list[str] = []
        self.gate = asyncio.Event()

    async def hold(self) -> None:
        async with self.slots.slot("holder"):
            await self.gate.wait()

    async def wait(self, tenant: str) -> None:
        async with self.slots.slot(tenant):
            self.served.append(tenant)
            await asyncio.sleep(0)

    async def lined_up(self, tenants: str) -> list[asyncio.Task[None]]:
        """Hold the slot and let these wait, in their order; the last to come is the last."""
        tasks = [asyncio.create_task(self.hold())]
        tasks += [asyncio.create_task(self.wait(tenant)) for tenant in tenants]
        await asyncio.sleep(0)
        return tasks


async def test_those_who_wait_are_served_in_turn() -> None:
    queue = Queue()
    tasks = await queue.lined_up("aaaabbc")

    queue.gate.set()
    await asyncio.gather(*tasks)

    assert "".join(queue.served) == "abcabaa"


async def test_who_gives_up_does_not_keep_the_slot() -> None:
    queue = Queue()
    tasks = await queue.lined_up("abc")

    tasks[1].cancel()
    await asyncio.sleep(0)
    queue.gate.set()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert queue.served == ["b", "c"]


async def test_who_is_given_a_slot_while_giving_up_hands_it_on() -> None:
    queue = Queue()
    tasks = await queue.lined_up("ab")

    queue.slots._release("holder")
    tasks[1].cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert queue.served == ["b"]
    queue.gate.set()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_there_are_as_many_slots_as_told() -> None:
    slots, most, now = FairSlots(3), 0, 0

    async def work(tenant: str) -> None:
        nonlocal most, now
        async with slots.slot(tenant):
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

    await asyncio.gather(*(work(tenant) for tenant in "aabbccddee"))

    assert most == 3


@pytest.mark.anyio
async def test_a_tenant_with_its_slots_leaves_one_to_others() -> None:
    slots, gate, entered = FairSlots(3, 2), asyncio.Event(), list[str]()

    async def work(tenant: str) -> None:
        async with slots.slot(tenant):
            entered.append(tenant)
            await gate.wait()

    greedy = [asyncio.create_task(work("greedy")) for _ in range(5)]
    await asyncio.sleep(0)
    other = asyncio.create_task(work("other"))
    await asyncio.sleep(0)
    at_first = list(entered)
    gate.set()
    await asyncio.gather(other, *greedy)

    assert at_first == ["greedy", "greedy", "other"]
    assert len(entered) == 6
    assert slots._free == 3
