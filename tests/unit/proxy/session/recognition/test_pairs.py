"""No history gets the checkpoint of another one, however alike they are."""

import random
from collections import Counter

import pytest

from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.recognition.align import LEAST_BYTES, LEAST_GROUPS
from chat_proxy.proxy.session.recognition.checkpoints import Checkpoints
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.store.memory import MemoryStore
from tests.unit.chat.shapes import Fields, says, user
from tests.unit.proxy.session.recognition.histories import history
from tests.unit.proxy.session.recognition.pairs import (
    EDITS,
    edited,
    some_history,
    with_other_results,
)

pytestmark = pytest.mark.anyio

PAIRS = 10_000
OTHER_RESULTS = 1_000
PER_STORE = 500
ALICE = Scope("alice", b"policy")
REST = [user("And then?"), says("So it went on.")]


class Kept:
    """Checkpoints that are kept for whole histories; many share a store."""

    def __init__(self) -> None:
        self._checkpoints = Checkpoints(MemoryStore(b"secret"))
        self._count = 0

    async def keep(self, messages: list[Fields]) -> Checkpoint:
        if self._count % PER_STORE == 0:
            self._checkpoints = Checkpoints(MemoryStore(b"secret"))
        self._count += 1
        until = len(messages)
        own = Checkpoint(until, Treatments(), 100, until, f"Summary {self._count}")
        await self._checkpoints.keep(ALICE, history(*messages), own)
        return own

    async def find(self, messages: list[Fields]) -> Checkpoint | None:
        given = [*messages, *REST]
        return await self._checkpoints.find(ALICE, history(*given), len(given))


async def test_of_ten_thousand_pairs_that_differ_in_one_thing_none_is_mistaken() -> None:
    """BUGS 36: one result, user word, argument, answer, message or medium is another."""
    dice, kept = random.Random(21), Kept()
    foreign: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    missed = 0
    while tried.total() < PAIRS:
        edit = EDITS[tried.total() % len(EDITS)]
        messages = some_history(dice)
        other = edited(messages, edit, dice)
        if other is None:
            continue
        own = await kept.keep(messages)
        tried[edit.__name__] += 1
        missed += await kept.find(messages) != own
        foreign[edit.__name__] += await kept.find(other) is not None

    assert foreign.total() == 0, foreign
    assert missed == 0
    assert min(tried.values()) >= PAIRS // len(EDITS)


async def test_of_a_thousand_pairs_of_the_same_calls_with_other_results_none_is_mistaken() -> None:
    """BUGS 36: a nightly job reads the same files, and must not get yesterday's summary."""
    dice, kept = random.Random(22), Kept()
    tried = foreign = 0
    while tried < OTHER_RESULTS:
        messages = some_history(dice)
        if any(message["role"] == "tool" for message in messages):
            await kept.keep(messages)
            tried += 1
            foreign += await kept.find(with_other_results(messages, dice)) is not None

    assert foreign == 0


async def test_of_a_thousand_windows_each_finds_its_own() -> None:
    """A client that drops its oldest messages is the control: what is alike is found."""
    dice, kept = random.Random(23), Kept()
    found = enough = 0
    for _ in range(OTHER_RESULTS):
        messages = some_history(dice)
        own = await kept.keep(messages)
        window = messages[dice.choice(history(*messages).seams[1:4]) :]
        candidate = history(*window).candidate(len(window))
        if candidate.groups < LEAST_GROUPS or candidate.size < LEAST_BYTES:
            continue
        enough += 1
        again = await kept.find(window)
        found += again is not None and again.text == own.text

    assert enough > 100
    assert found == enough
