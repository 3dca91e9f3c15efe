"""Offloaded texts: named by content, kept while in use, given to their tenant alone."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.proxy.session.offloads import (
    KIND,
    MAX_ROW_BYTES,
    PART_BYTES,
    PAUSE_SECONDS,
    Offloads,
)
from chat_proxy.store.memory import MemoryStore
from chat_proxy.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio

DAY = 86_400.0
RETENTION = 5 * DAY


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class MonitoredStore(MemoryStore):
    """A store that counts what it is told, and can refuse."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(b"secret", clock=clock)
        self.told: list[bytes] = []
        self.is_full = False
        self.refuses_after = 10**9

    async def put(
        self, kind: str, key: bytes, value: bytes, ttl_seconds: float, owner: str | None = None
    ) -> bool:
        self.told.append(value)
        is_full = self.is_full or len(self.told) > self.refuses_after
        return not is_full and await super().put(kind, key, value, ttl_seconds, owner)


class Desk:
    """Offloads over a watched store, under a clock that a test moves."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MonitoredStore(self.clock)
        self.offloads = Offloads(self.store, RETENTION, self.clock)

    async def keep(self, *texts: str, tenant: str = "alice") -> frozenset[str]:
        """Keep texts; return those that were not kept."""
        named = {self.offloads.id_of(tenant, text): text for text in texts}
        unkept = await self.offloads.keep(tenant, named)
        return frozenset(named[name] for name in unkept)

    async def find(self, text: str, tenant: str = "alice") -> str | None:
        return await self.offloads.find(tenant, self.offloads.id_of(tenant, text))


async def test_a_text_comes_back_whole() -> None:
    desk = Desk()

    assert await desk.keep("first", "second ü €") == frozenset()

    assert await desk.find("first") == "first"
    assert await desk.find("second ü €") == "second ü €"
    assert await desk.find("third") is None


async def test_a_text_survives_a_restart_under_the_same_id(tmp_path: Path) -> None:
    """BUGS 37, 44."""
    names = []
    for _ in range(2):
        store = SqliteStore(tmp_path / "store.db")
        await store.open()
        offloads = Offloads(store, RETENTION)
        names.append(offloads.id_of("alice", "text"))
        if len(names) == 1:
            await offloads.keep("alice", {names[0]: "text"})
        found = await offloads.find("alice", names[0])
        await store.close()

    assert names[0] == names[1]
    assert found == "text"


async def test_another_tenant_finds_nothing_even_with_the_id() -> None:
    """FAULTS F4, F20."""
    desk = Desk()
    await desk.keep("text")
    name = desk.offloads.id_of("alice", "text")

    assert await desk.offloads.find("bob", name) is None
    assert desk.offloads.id_of("bob", "text") != name


async def test_a_text_that_is_kept_is_not_written_again() -> None:
    desk = Desk()
    for _ in range(3):
        await desk.keep("text")

    assert desk.store.told == [b"text"]


async def test_a_text_in_use_does_not_expire() -> None:
    desk = Desk()
    for _ in range(20):
        await desk.keep("text")
        desk.clock.now += DAY

    assert await desk.find("text") == "text"
    assert len(desk.store.told) < 10


async def test_a_text_out_of_use_expires() -> None:
    """FAULTS D12."""
    desk = Desk()
    await desk.keep("text")

    desk.clock.now += RETENTION

    assert await desk.find("text") is None


async def test_what_the_store_refuses_is_told() -> None:
    """FAULTS D3, D12: the original then stays in the conversation."""
    desk = Desk()
    await desk.keep("old")
    desk.store.is_full = True

    assert await desk.keep("old", "new") == {"new"}


async def test_a_store_that_refuses_is_left_alone_for_a_while() -> None:
    desk = Desk()
    desk.store.is_full = True
    await desk.keep("a", "b", "c")
    desk.store.is_full = False

    early = await desk.keep("a", "b", "c")
    desk.clock.now += PAUSE_SECONDS
    late = await desk.keep("a", "b", "c")

    assert early == {"a", "b", "c"}
    assert not late
    assert len(desk.store.told) == 1 + 3


async def test_a_text_that_is_still_there_counts_as_kept_though_it_cannot_be_renewed() -> None:
    """Sending it whole now would break the prompt's prefix for nothing."""
    desk = Desk()
    await desk.keep("text")
    desk.store.is_full = True

    desk.clock.now += RETENTION * 0.8
    still_there = await desk.keep("text")
    desk.clock.now += RETENTION * 0.15
    nearly_gone = await desk.keep("text")

    assert not still_there
    assert nearly_gone == {"text"}


async def test_small_texts_are_kept_before_a_large_one_that_may_fail() -> None:
    desk = Desk()

    await desk.keep("large" * 100, "small")

    assert desk.store.told == [b"small", b"large" * 100]


@pytest.mark.parametrize("text", ["x" * (MAX_ROW_BYTES + 1), "xü" + "€" * (MAX_ROW_BYTES // 3)])
async def test_a_text_that_is_too_large_for_one_row_is_kept_in_parts(text: str) -> None:
    """Issue 22, 19: nothing is lost silently."""
    desk = Desk()

    assert await desk.keep(text, "small") == frozenset()

    assert await desk.find(text) == text
    assert await desk.find(text, "bob") is None
    assert max(map(len, desk.store.told)) <= PART_BYTES
    written = len(desk.store.told)
    await desk.keep(text)
    assert len(desk.store.told) == written


async def test_a_text_of_which_a_part_is_missing_is_not_found() -> None:
    desk = Desk()
    text = "x" * (MAX_ROW_BYTES + 1)
    await desk.keep(text)
    name = desk.offloads.id_of("alice", text)

    del desk.store._rows._entries[KIND, desk.offloads._part("alice", name, 1)]

    assert await desk.find(text) is None


async def test_a_text_of_which_a_part_is_refused_is_not_kept() -> None:
    desk = Desk()
    desk.store.refuses_after = 1
    text = "x" * (MAX_ROW_BYTES + 1)

    assert await desk.keep(text) == {text}
    assert await desk.find(text) is None


async def test_half_an_emoji_is_replaced_in_our_copy_only() -> None:
    """FAULTS A4."""
    desk = Desk()

    assert await desk.keep("half \ud83d emoji") == frozenset()

    assert await desk.find("half \ud83d emoji") == "half \ufffd emoji"


async def test_a_retention_beyond_all_bounds_is_shortened() -> None:
    clock = Clock()
    offloads = Offloads(MemoryStore(clock=clock), 1e12, clock)
    name = offloads.id_of("alice", "text")
    await offloads.keep("alice", {name: "text"})

    clock.now += 367 * DAY

    assert await offloads.find("alice", name) is None


@given(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())))
def test_an_id_is_32_hex_digits_and_another_text_has_another(first: str, second: str) -> None:
    """BUGS 44."""
    offloads = Desk().offloads

    names = {offloads.id_of("alice", text) for text in (first, second, first)}

    assert len(names) == len({first, second})
    assert all(len(name) == 32 and int(name, 16) >= 0 for name in names)
