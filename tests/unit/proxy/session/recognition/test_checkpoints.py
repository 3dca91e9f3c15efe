"""Checkpoints are found by the content of a history, the longest prefix first."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.proxy.session.recognition.checkpoints import (
    ASK_AGAIN_SECONDS,
    KIND,
    Checkpoints,
)
from chat_proxy.proxy.session.recognition.history import History
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.store.base import Rows
from chat_proxy.store.memory import MemoryStore
from chat_proxy.store.sqlite.store import SqliteStore
from tests.unit.proxy.session.recognition.histories import words

pytestmark = pytest.mark.anyio

ALICE = Scope("alice", b"policy")


class MonitoredStore(MemoryStore):
    """A store that counts what it is asked, and can be made slow, empty-handed or unwilling."""

    def __init__(self) -> None:
        super().__init__(b"secret")
        self.asked: dict[str, list[int]] = {}
        self.is_down = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        self.asked.setdefault(kind, []).append(len(keys))
        return {} if self.is_down else await super().get_many(kind, keys)

    async def put(
        self, kind: str, key: bytes, value: bytes, ttl_seconds: float, owner: str | None = None
    ) -> bool:
        await self.gate.wait()
        return not self.is_down and await super().put(kind, key, value, ttl_seconds, owner)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def checkpoint(until: int, text: str = "") -> Checkpoint:
    return Checkpoint(until, Treatments(), 1_000, until if text else 0, text, text)


async def keep_whole(checkpoints: Checkpoints, history: History) -> None:
    """Leave a checkpoint behind for a whole history, as a request does."""
    await checkpoints.keep(ALICE, history, checkpoint(len(history.links)))


async def found(
    checkpoints: Checkpoints, *messages: str, scope: Scope = ALICE, kind: str = KIND
) -> Checkpoint | None:
    history = words(*messages)
    return await checkpoints.find(scope, history, len(messages), kind)


async def test_an_appended_history_finds_its_checkpoint() -> None:
    checkpoints = Checkpoints(MonitoredStore())
    await checkpoints.keep(ALICE, words("a", "b"), checkpoint(2))

    assert await found(checkpoints, "a", "b") == checkpoint(2)
    assert await found(checkpoints, "a", "b", "c", "d") == checkpoint(2)


async def test_the_longest_prefix_wins() -> None:
    checkpoints = Checkpoints(MonitoredStore())
    for until in (2, 4, 3):
        await keep_whole(checkpoints, words(*"abcdef"[:until]))

    assert await found(checkpoints, *"abcdef") == checkpoint(4)
    assert await found(checkpoints, *"abcx") == checkpoint(3)


async def test_an_edited_branched_or_shorter_history_finds_nothing() -> None:
    """BUGS 36."""
    checkpoints = Checkpoints(MonitoredStore())
    await checkpoints.keep(ALICE, words("a", "b"), checkpoint(2))

    assert await found(checkpoints, "a") is None
    assert await found(checkpoints, "A", "b") is None
    assert await found(checkpoints, "a", "c") is None
    assert await found(checkpoints) is None


@pytest.mark.parametrize("scope", [Scope("bob", b"policy"), Scope("alice", b"another policy")])
async def test_another_tenant_or_policy_finds_nothing(scope: Scope) -> None:
    """FAULTS F4, BUGS 36 and 45: the same messages, word for word."""
    store = MonitoredStore()
    await Checkpoints(store).keep(ALICE, words("a", "b"), checkpoint(2))

    assert await found(Checkpoints(store), "a", "b", scope=scope) is None


async def test_kinds_do_not_mix() -> None:
    checkpoints = Checkpoints(MonitoredStore())
    await checkpoints.keep(ALICE, words("a", "b"), checkpoint(2), "attempt")

    assert await found(checkpoints, "a", "b") is None
    assert await found(checkpoints, "a", "b", kind="attempt") == checkpoint(2)


async def test_a_checkpoint_survives_a_restart(tmp_path: Path) -> None:
    """BUGS 37."""
    before = SqliteStore(tmp_path / "store.db")
    await before.open()
    await Checkpoints(before).keep(ALICE, words("a", "b"), checkpoint(2, "a summary"))
    await before.close()
    after = SqliteStore(tmp_path / "store.db")
    await after.open()

    assert await found(Checkpoints(after), "a", "b", "c") == checkpoint(2, "a summary")
    await after.close()


async def test_the_store_is_asked_once_for_all_seams() -> None:
    store = MonitoredStore()

    await found(Checkpoints(store), *"abcdef")

    assert store.asked[KIND] == [6]


async def test_only_what_is_longer_than_the_known_one_is_asked_for() -> None:
    store = MonitoredStore()
    checkpoints = Checkpoints(store)
    await keep_whole(checkpoints, words(*"abcd"))

    await found(checkpoints, *"abcdef")

    assert store.asked[KIND] == [3]


async def test_what_another_process_wrote_since_takes_the_place_of_what_is_known() -> None:
    """Two processes that fold the same prefix differently would break the prompt's prefix."""
    store = MonitoredStore()
    mine, theirs = Checkpoints(store), Checkpoints(store)
    await mine.keep(ALICE, words("a", "b"), checkpoint(2, "mine"))
    await theirs.keep(ALICE, words("a", "b"), checkpoint(2, "theirs"))

    assert await found(mine, "a", "b", "c") == checkpoint(2, "theirs")
    assert await found(theirs, "a", "b", "c") == checkpoint(2, "theirs")


async def test_what_is_known_serves_while_the_store_does_not() -> None:
    """FAULTS D8."""
    store = MonitoredStore()
    checkpoints = Checkpoints(store)
    store.is_down = True

    assert not await checkpoints.keep(ALICE, words("a", "b"), checkpoint(2))

    assert await found(checkpoints, "a", "b", "c") == checkpoint(2)


async def test_a_row_that_cannot_be_read_is_a_miss() -> None:
    store = MonitoredStore()
    history = words("a", "b")
    for link, row in zip(history.links, (checkpoint(1).to_bytes(), b"{}"), strict=True):
        await store.put(KIND, ALICE.address(store, KIND, link), row, 60)

    assert await found(Checkpoints(store), "a", "b") == checkpoint(1)


async def test_the_same_question_is_not_asked_twice_in_a_moment() -> None:
    store, clock = MonitoredStore(), Clock()
    checkpoints = Checkpoints(store, clock=clock)

    await found(checkpoints, *"abc")
    await found(checkpoints, *"abc")
    await found(checkpoints, *"abcde")

    assert store.asked[KIND] == [3, 2]


async def test_a_moment_does_not_grow_by_asking_on() -> None:
    """Another process may have written what was not there."""
    store, clock = MonitoredStore(), Clock()
    checkpoints = Checkpoints(store, clock=clock)
    await found(checkpoints, *"a")
    await Checkpoints(store).keep(ALICE, words("a"), checkpoint(1))

    clock.now += ASK_AGAIN_SECONDS * 0.6
    early = await found(checkpoints, *"ab")
    clock.now += ASK_AGAIN_SECONDS * 0.6
    late = await found(checkpoints, *"abc")

    assert early is None
    assert late == checkpoint(1)


async def test_what_this_process_keeps_is_found_at_once() -> None:
    store, clock = MonitoredStore(), Clock()
    checkpoints = Checkpoints(store, clock=clock)
    assert await found(checkpoints, *"abc") is None

    await checkpoints.keep(ALICE, words("a", "b"), checkpoint(2))

    assert await found(checkpoints, *"abc") == checkpoint(2)
    assert len(store.asked[KIND]) == 1


async def test_what_is_being_written_is_newer_than_what_is_there() -> None:
    store = MonitoredStore()
    checkpoints = Checkpoints(store)
    await checkpoints.keep(ALICE, words("a", "b"), checkpoint(2, "old"))
    store.gate.clear()
    originals = asyncio.create_task(checkpoints.keep(ALICE, words("a", "b"), checkpoint(2, "new")))
    await asyncio.sleep(0)

    assert await found(checkpoints, "a", "b", "c") == checkpoint(2, "new")

    store.gate.set()
    assert await originals
    assert await found(checkpoints, "a", "b", "c", "d") == checkpoint(2, "new")


async def test_a_checkpoint_is_kept_though_the_request_is_cancelled() -> None:
    """FAULTS D7."""
    store = MonitoredStore()
    store.gate.clear()
    checkpoints = Checkpoints(store)
    originals = asyncio.create_task(checkpoints.keep(ALICE, words("a"), checkpoint(1)))
    await asyncio.sleep(0)
    originals.cancel()
    await asyncio.wait({originals})

    asyncio.get_running_loop().call_later(0.01, store.gate.set)
    await checkpoints.close()

    assert originals.cancelled()
    assert await found(Checkpoints(store), "a") == checkpoint(1)


async def test_closing_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chat_proxy.proxy.session.recognition.checkpoints.CLOSE_SECONDS", 0.01)
    store = MonitoredStore()
    store.gate.clear()
    checkpoints = Checkpoints(store)
    originals = asyncio.create_task(checkpoints.keep(ALICE, words("a"), checkpoint(1)))
    await asyncio.sleep(0)

    await checkpoints.close()

    assert not originals.done()
    store.gate.set()
    await originals


async def test_memory_is_bounded() -> None:
    store = MonitoredStore()
    checkpoints = Checkpoints(store, max_local=10)
    for number in range(30):
        await checkpoints.keep(ALICE, words(str(number)), checkpoint(1))
    store.is_down = True

    known = [await found(checkpoints, str(number)) for number in range(30)]

    assert known == [None] * 20 + [checkpoint(1)] * 10
    await checkpoints.close()


@given(
    st.lists(st.integers(0, 2), max_size=6),
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), max_size=5),
)
def test_what_is_found_is_the_longest_that_is_a_prefix(
    asked: list[int], kept: list[list[int]]
) -> None:
    """BUGS 36: no history but its own prefixes can answer."""

    async def find() -> Checkpoint | None:
        store = MonitoredStore()
        for history in kept:
            await keep_whole(Checkpoints(store), words(*map(str, history)))
        return await found(Checkpoints(store), *map(str, asked))

    prefixes = [history for history in kept if history == asked[: len(history)]]
    expected = checkpoint(max(map(len, prefixes))) if prefixes else None
    assert asyncio.run(find()) == expected
