"""Small work runs at once, large work beside the event loop."""

import threading

import pytest

from chat_proxy.inline_or_thread import INLINE_BYTES, run_inline_or_in_thread

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("size", [0, INLINE_BYTES])
async def test_small_work_runs_in_this_thread(size: int) -> None:
    assert await run_inline_or_in_thread(threading.get_ident, size) == threading.get_ident()


async def test_small_work_leaves_the_loop_to_nobody_else() -> None:
    work = run_inline_or_in_thread(lambda: "done", 1)

    with pytest.raises(StopIteration) as ended:
        work.send(None)

    assert ended.value.value == "done"


async def test_large_work_runs_in_another_thread() -> None:
    ran_in = await run_inline_or_in_thread(threading.get_ident, INLINE_BYTES + 1)

    assert ran_in != threading.get_ident()


@pytest.mark.parametrize(("size", "is_inline"), [(10, True), (11, False)])
async def test_the_limit_may_be_another(size: int, is_inline: bool) -> None:
    ran_in = await run_inline_or_in_thread(threading.get_ident, size, 10)

    assert (ran_in == threading.get_ident()) == is_inline


@pytest.mark.parametrize("size", [1, INLINE_BYTES + 1])
async def test_what_goes_wrong_is_raised_either_way(size: int) -> None:
    def fail() -> None:
        raise KeyError("work")

    with pytest.raises(KeyError, match="work"):
        await run_inline_or_in_thread(fail, size)
