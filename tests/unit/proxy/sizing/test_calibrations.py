"""Calibrations belong to the counts that they were learned from."""

import pytest

from chat_proxy.proxy.sizing.calibrations import KIND, Calibrations, Counted, address_of
from chat_proxy.store.memory import MemoryStore
from chat_proxy.tokens.calibration.calibration import Calibration
from chat_proxy.tokens.counter import RequestCount

PLACE = ("http://127.0.0.1:8000/v1", "local")
COUNT = RequestCount(text=1_000, overhead=13, scripts=1_000)


def learn(calibrations: Calibrations, tokens: int, counted_with: Calibration | None = None) -> None:
    """Learn from a report of a request that was counted with the present calibration or another."""
    calibration = counted_with or calibrations.known(*PLACE)
    assert calibration is not None
    calibrations.learn(PLACE, Counted(COUNT, calibration), (tokens, 0))


@pytest.mark.anyio
async def test_counts_in_another_vocabulary_begin_anew() -> None:
    calibrations = Calibrations(MemoryStore())
    await calibrations.of(*PLACE, "")
    for _ in range(5):
        learn(calibrations, 1_700)

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
    learn(first, 1_700)
    await first.close()
    assert await store.get_many(KIND, [address_of(PLACE)])

    assert (await Calibrations(store).of(*PLACE, "measured")).lessons == 0
    assert (await Calibrations(store).of(*PLACE, "")).lessons == 1


@pytest.mark.anyio
async def test_a_vocabulary_that_the_engine_shows_begins_anew_and_is_kept() -> None:
    store = MemoryStore()
    calibrations = Calibrations(store)
    await calibrations.of(*PLACE, "")
    learn(calibrations, 1_700)

    calibrations.recognise(PLACE, "tekken")
    begun = await calibrations.of(*PLACE, "")
    learn(calibrations, 1_030)
    calibrations.recognise(PLACE, "tekken")
    await calibrations.close()
    read = await Calibrations(store).of(*PLACE, "")

    assert (begun.vocabulary, begun.lessons, begun.estimate(COUNT)) == ("tekken", 0, 1_013)
    assert (read.vocabulary, read.lessons) == ("tekken", 1)
    assert read.estimate(COUNT) == pytest.approx(1_030, rel=0.01)


@pytest.mark.anyio
async def test_an_answer_to_a_request_that_was_counted_before_teaches_nothing() -> None:
    calibrations = Calibrations(MemoryStore())
    before = await calibrations.of(*PLACE, "")
    calibrations.recognise(PLACE, "tekken")

    learn(calibrations, 1_700, before)
    calibrations.learn_exactly(PLACE, Counted(COUNT, before), 1_700)

    known = calibrations.known(*PLACE)
    assert known is not None
    assert known.lessons == 0


@pytest.mark.anyio
async def test_a_model_that_was_replaced_by_one_with_an_unknown_vocabulary_begins_anew() -> None:
    calibrations = Calibrations(MemoryStore())
    await calibrations.of(*PLACE, "")
    calibrations.recognise(PLACE, "tekken")
    learn(calibrations, 1_030)

    calibrations.recognise(PLACE, None)

    assert await calibrations.of(*PLACE, "") == Calibration.fresh()
