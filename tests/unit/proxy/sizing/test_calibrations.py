"""Calibrations belong to the counts that they were learned from."""

import pytest

from chat_proxy.proxy.sizing.calibrations import KIND, Calibrations, address_of
from chat_proxy.store.memory import MemoryStore
from chat_proxy.tokens.counter import RequestCount

PLACE = ("http://127.0.0.1:8000/v1", "local")
COUNT = RequestCount(text=1_000, overhead=13, scripts=1_000)


@pytest.mark.anyio
async def test_counts_in_another_vocabulary_begin_anew() -> None:
    calibrations = Calibrations(MemoryStore())
    await calibrations.of(*PLACE, "")
    for _ in range(5):
        calibrations.learn(*PLACE, COUNT, (1_700, 0))

    learned = await calibrations.of(*PLACE, "")
    other = await calibrations.of(*PLACE, "measured")

    assert learned.estimate(COUNT) == pytest.approx(1_700, rel=0.02)
    assert (other.lessons, other.estimate(COUNT)) == (0, 1_013)
    assert await calibrations.of(*PLACE, "measured") is other


@pytest.mark.anyio
async def test_what_was_stored_for_other_counts_is_not_read() -> None:
    store = MemoryStore()
    first = Calibrations(store)
    await first.of(*PLACE, "")
    first.learn(*PLACE, COUNT, (1_700, 0))
    await first.close()
    assert await store.get_many(KIND, [address_of(PLACE)])

    assert (await Calibrations(store).of(*PLACE, "measured")).lessons == 0
    assert (await Calibrations(store).of(*PLACE, "")).lessons == 1
