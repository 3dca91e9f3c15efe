"""Changes are written a little later: once for many, again if need be, and at the end."""

import asyncio

import pytest

from chat_proxy import write_behind
from chat_proxy.write_behind import WriteBehind
from tests.support.clock import within
from tests.support.live import eventually

pytestmark = pytest.mark.anyio

PAUSE_SECONDS = 0.02
NEVER_SECONDS = 60.0


class Owner:
    """Has changes, and a store that takes all of them, refuses them or hangs."""

    def __init__(self) -> None:
        self.pending: list[int] = []
        self.writes: list[list[int]] = []
        self.refusals = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def write(self) -> bool:
        written, self.pending = self.pending, []
        self.writes.append(written)
        await self.go_on.wait()
        if self.refusals:
            self.refusals -= 1
            self.pending = written + self.pending
            return False
        return True

    def change(self, behind: WriteBehind, number: int) -> None:
        self.pending.append(number)
        behind.schedule()


async def test_many_changes_are_one_write_after_a_pause() -> None:
    owner = Owner()
    behind = WriteBehind(owner.write, PAUSE_SECONDS)

    for number in range(3):
        owner.change(behind, number)
    await asyncio.sleep(0)
    assert owner.writes == []

    await eventually(lambda: owner.writes == [[0, 1, 2]])
    await asyncio.sleep(3 * PAUSE_SECONDS)
    assert owner.writes == [[0, 1, 2]]


async def test_a_change_after_a_write_is_another_write() -> None:
    owner = Owner()
    behind = WriteBehind(owner.write, 0.001)

    owner.change(behind, 1)
    await eventually(lambda: owner.writes == [[1]])
    owner.change(behind, 2)

    await eventually(lambda: owner.writes == [[1], [2]])


async def test_what_is_refused_is_tried_again_after_a_pause() -> None:
    owner = Owner()
    owner.refusals = 2
    behind = WriteBehind(owner.write, 0.001)

    owner.change(behind, 1)

    await eventually(lambda: len(owner.writes) == 3)
    await asyncio.sleep(PAUSE_SECONDS)
    assert owner.writes == [[1], [1], [1]]


async def test_a_change_during_a_write_is_not_forgotten() -> None:
    owner = Owner()
    owner.go_on.clear()
    behind = WriteBehind(owner.write, 0.001)

    owner.change(behind, 1)
    await eventually(lambda: owner.writes == [[1]])
    owner.change(behind, 2)
    owner.go_on.set()

    await eventually(lambda: owner.writes == [[1], [2]])


async def test_the_first_of_many_changes_may_be_written_at_once() -> None:
    owner = Owner()
    behind = WriteBehind(owner.write, PAUSE_SECONDS, at_once=True)

    owner.change(behind, 1)
    await asyncio.sleep(0)
    assert owner.writes == [[1]]

    for number in (2, 3):
        owner.change(behind, number)
        await asyncio.sleep(0)
    assert owner.writes == [[1]]

    await eventually(lambda: owner.writes == [[1], [2, 3]])


async def test_the_rest_is_written_at_the_end() -> None:
    owner = Owner()
    behind = WriteBehind(owner.write, NEVER_SECONDS)
    owner.change(behind, 1)

    await behind.close()

    assert owner.writes == [[1]]


async def test_the_end_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_behind, "CLOSE_SECONDS", 0.01)
    owner = Owner()
    owner.go_on.clear()
    behind = WriteBehind(owner.write, 0.001)
    owner.change(behind, 1)
    await eventually(lambda: owner.writes == [[1]])

    async with within(5):
        await behind.close()

    assert owner.writes == [[1], []]


async def test_one_that_never_had_a_change_can_be_closed() -> None:
    owner = Owner()

    await WriteBehind(owner.write, NEVER_SECONDS).close()

    assert owner.writes == [[]]
