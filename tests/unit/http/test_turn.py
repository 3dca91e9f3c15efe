"""Tasks of one turn of the event loop go step by step together; a lone one waits for nobody."""

import asyncio
from contextlib import suppress

import pytest

from chat_proxy.http.turn import Turn
from chat_proxy.http.write_batch import WriteBatch

pytestmark = pytest.mark.anyio


async def walk(turn: Turn, name: str, seen: list[str]) -> None:
    """Go two steps, and say so at each place."""
    turn.run()
    for place in (1, 2, 3):
        seen.append(f"{name}{place}")
        if place < 3:
            await turn.step()


def woken(turn: Turn, *names: str) -> tuple[list[asyncio.Task[None]], list[str]]:
    """Return tasks that walk side by side, and what they will have seen."""
    seen: list[str] = []
    for _ in names:
        turn.wake()
    return [asyncio.create_task(walk(turn, name, seen)) for name in names], seen


async def test_who_is_woken_together_comes_together_to_every_step() -> None:
    tasks, seen = woken(Turn(), "a", "b", "c")

    await asyncio.gather(*tasks)

    assert seen == ["a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3", "c3"]


async def test_who_is_alone_goes_on_at_once() -> None:
    turn, seen = Turn(), []  # type: ignore[var-annotated]
    turn.wake()
    task = asyncio.create_task(walk(turn, "a", seen))

    await asyncio.sleep(0)

    assert task.done()
    assert seen == ["a1", "a2", "a3"]


async def test_one_that_is_cancelled_between_two_steps_holds_up_nobody() -> None:
    turn = Turn()
    tasks, seen = woken(turn, "a", "b")
    await asyncio.sleep(0)
    tasks[0].cancel()

    with suppress(asyncio.CancelledError):
        await tasks[0]
    await tasks[1]

    assert seen == ["a1", "b1", "b2", "b3"]
    assert turn.is_over


async def test_what_is_new_begins_at_once_while_nobody_is_busy() -> None:
    begun: list[str] = []

    Turn().begin(lambda: begun.append("new"), asyncio.get_running_loop())

    assert begun == ["new"]


async def test_what_is_new_begins_together_behind_those_who_go_on() -> None:
    turn, loop = Turn(), asyncio.get_running_loop()
    tasks, seen = woken(turn, "a", "b")

    for name in ("new", "newer"):
        turn.begin(lambda name=name: seen.append(name), loop)  # type: ignore[misc]
    assert seen == []
    await asyncio.gather(*tasks)

    assert seen.index("new") + 1 == seen.index("newer")
    assert seen.index("b1") < seen.index("new")


async def test_one_who_never_ran_is_forgotten() -> None:
    turn = WriteBatch()
    turn.wake()
    assert not turn.is_over

    turn.forget(1)

    assert turn.is_over
