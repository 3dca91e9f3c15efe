"""What overflows taught about windows: known at once, kept for a week, across restarts."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from chat_proxy import write_behind
from chat_proxy.proxy.sizing import learned_windows
from chat_proxy.proxy.sizing.context_window import LearnedLimits
from chat_proxy.proxy.sizing.learned_windows import KIND, LearnedWindows
from chat_proxy.store.base import Rows, Store
from chat_proxy.store.memory import MemoryStore
from chat_proxy.store.sqlite.store import SqliteStore
from chat_proxy.upstream.overflow import Overflow
from tests.support.clock import within

pytestmark = pytest.mark.anyio

URL = "http://a/v1"
WEEK = 7 * 86_400.0


class MonitoredStore(MemoryStore):
    """A store that counts what it is asked and told, can refuse, and can be slow."""

    def __init__(self) -> None:
        super().__init__(b"secret")
        self.asked = 0
        self.told = 0
        self.is_down = False
        self.written = asyncio.Semaphore(0)
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        self.asked += 1
        rows = await super().get_many(kind, keys)
        await self.go_on.wait()
        return rows

    async def put(
        self, kind: str, key: bytes, value: bytes, ttl_seconds: float, owner: str | None = None
    ) -> bool:
        self.told += 1
        self.written.release()
        await self.go_on.wait()
        return not self.is_down and await super().put(kind, key, value, ttl_seconds, owner)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def windows_in(store: Store, clock: Clock | None = None) -> AsyncIterator[LearnedWindows]:
    windows = LearnedWindows(store, clock or Clock())
    yield windows
    await windows.close()


async def test_nothing_is_known_of_a_model_that_never_complained() -> None:
    """BUGS 15."""
    store = MonitoredStore()
    async with windows_in(store) as windows:
        assert await windows.of(URL, "m") is None
        assert await windows.of(URL, "m") is None

    assert store.asked == 1


async def test_a_lesson_is_known_at_once() -> None:
    async with windows_in(MonitoredStore()) as windows:
        windows.learn(URL, "m", Overflow(limit=8_192))

        assert await windows.of(URL, "m") == LearnedLimits(8_192, None)


async def test_the_window_and_the_longest_prompt_are_learned_apart() -> None:
    async with windows_in(MonitoredStore()) as windows:
        windows.learn(URL, "m", Overflow(limit=400_000))
        windows.learn(URL, "m", Overflow(input_limit=272_000))

        assert await windows.of(URL, "m") == LearnedLimits(400_000, 272_000)


@pytest.mark.parametrize("told", [4_096, 16_384])
async def test_the_newest_lesson_counts(told: int) -> None:
    async with windows_in(MonitoredStore()) as windows:
        windows.learn(URL, "m", Overflow(limit=8_192))
        windows.learn(URL, "m", Overflow(limit=told))

        assert await windows.of(URL, "m") == LearnedLimits(told, None)


async def test_a_window_that_was_inferred_only_lowers() -> None:
    store = MonitoredStore()
    async with windows_in(store) as windows:
        news = [windows.lower(URL, "m", tokens) for tokens in (8_192, 8_192, 16_384, 4_096)]

        assert news == [True, False, False, True]
        assert await windows.of(URL, "m") == LearnedLimits(4_096, None)
        assert windows.lessons == 2


async def test_an_inferred_window_is_kept_as_one_that_was_told(tmp_path: Path) -> None:
    async with _sqlite(tmp_path) as store, windows_in(store) as windows:
        windows.lower(URL, "m", 4_096)
    async with _sqlite(tmp_path) as store, windows_in(store) as windows:
        assert await windows.of(URL, "m") == LearnedLimits(4_096, None)
        assert not windows.lower(URL, "m", 8_192)


async def test_an_inferred_window_may_be_larger_when_the_last_one_is_forgotten() -> None:
    clock = Clock()
    async with windows_in(MonitoredStore(), clock) as windows:
        windows.lower(URL, "m", 4_096)
        clock.now += WEEK + 1

        assert windows.lower(URL, "m", 8_192)


@pytest.mark.parametrize("tokens", [-1, 0, 63, 10**12])
async def test_an_inferred_window_that_cannot_be_is_not_learned(tokens: int) -> None:
    async with windows_in(MonitoredStore()) as windows:
        assert not windows.lower(URL, "m", tokens)
        assert await windows.of(URL, "m") is None


@pytest.mark.parametrize(
    "overflow",
    [
        Overflow(),
        Overflow(is_bytes=True),
        Overflow(limit=3),
        Overflow(limit=10**12, input_limit=-1),
        Overflow(prompt_tokens=9_000),
    ],
)
async def test_an_overflow_that_tells_no_sane_limit_teaches_nothing(overflow: Overflow) -> None:
    """BUGS 33."""
    store = MonitoredStore()
    async with windows_in(store) as windows:
        windows.learn(URL, "m", Overflow(limit=8_192))
        windows.learn(URL, "m", overflow)
        windows.learn(URL, "n", overflow)

        assert await windows.of(URL, "m") == LearnedLimits(8_192, None)
        assert await windows.of(URL, "n") is None

    assert store.told == 1


@pytest.mark.parametrize(
    ("base_url", "model"), [(URL, "n"), ("http://b/v1", "m"), (URL + "m", ""), (URL, "m\0limit")]
)
async def test_another_model_or_upstream_has_its_own_window(base_url: str, model: str) -> None:
    async with windows_in(MonitoredStore()) as windows:
        windows.learn(URL, "m", Overflow(limit=8_192))

        assert await windows.of(base_url, model) is None


async def test_a_models_name_may_be_anything() -> None:
    """Half an emoji, or a megabyte of which nothing is kept."""
    async with windows_in(MonitoredStore()) as windows:
        for name in ("half \ud83d", "x" * 1_000_000, ""):
            windows.learn(URL, name, Overflow(limit=8_192))

            assert await windows.of(URL, name) == LearnedLimits(8_192, None)


async def test_a_lesson_is_forgotten_after_a_week() -> None:
    clock = Clock()
    async with windows_in(MonitoredStore(), clock) as windows:
        windows.learn(URL, "m", Overflow(limit=8_192))
        clock.now += WEEK
        kept = await windows.of(URL, "m")
        clock.now += 1

        assert kept == LearnedLimits(8_192, None)
        assert await windows.of(URL, "m") is None


async def test_a_lesson_that_is_repeated_lives_on() -> None:
    clock = Clock()
    async with windows_in(MonitoredStore(), clock) as windows:
        windows.learn(URL, "m", Overflow(limit=8_192, input_limit=4_096))
        clock.now += WEEK - 1
        windows.learn(URL, "m", Overflow(limit=8_192))
        clock.now += 2

        assert await windows.of(URL, "m") == LearnedLimits(8_192, None)


async def test_a_lesson_survives_a_restart(tmp_path: Path) -> None:
    """BUGS 37."""
    async with _sqlite(tmp_path) as store, windows_in(store) as windows:
        windows.learn(URL, "m", Overflow(limit=8_192, input_limit=4_096))

    async with _sqlite(tmp_path) as store, windows_in(store) as windows:
        assert await windows.of(URL, "m") == LearnedLimits(8_192, 4_096)


@asynccontextmanager
async def _sqlite(folder: Path) -> AsyncIterator[Store]:
    store = SqliteStore(folder / "windows.db", b"secret")
    await store.open()
    yield store
    await store.close()


async def test_a_lesson_ages_across_a_restart() -> None:
    store, clock = MonitoredStore(), Clock()
    async with windows_in(store, clock) as windows:
        windows.learn(URL, "m", Overflow(limit=8_192))
    clock.now += WEEK + 1

    async with windows_in(store, clock) as windows:
        assert await windows.of(URL, "m") is None


async def test_one_limit_that_is_learned_before_any_is_read_does_not_hide_the_other() -> None:
    store = MonitoredStore()
    async with windows_in(store) as windows:
        windows.learn(URL, "m", Overflow(input_limit=4_096))

    async with windows_in(store) as windows:
        windows.learn(URL, "m", Overflow(limit=8_192))

        assert await windows.of(URL, "m") == LearnedLimits(8_192, 4_096)


async def test_a_lesson_is_written_without_being_asked_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(learned_windows, "WRITE_SECONDS", 0)
    store = MonitoredStore()
    windows = LearnedWindows(store)

    windows.learn(URL, "m", Overflow(limit=8_192))
    await store.written.acquire()
    windows.learn(URL, "m", Overflow(limit=4_096))
    await store.written.acquire()

    async with windows_in(store) as others:
        others._clock = windows._clock
        assert await others.of(URL, "m") == LearnedLimits(4_096, None)
    await windows.close()


async def test_many_lessons_of_one_model_are_written_as_one() -> None:
    store = MonitoredStore()
    async with windows_in(store) as windows:
        for limit in range(100, 200):
            windows.learn(URL, "m", Overflow(limit=limit))

    assert store.told == 1


async def test_what_is_learned_while_the_store_is_read_is_not_lost() -> None:
    store = MonitoredStore()
    async with windows_in(store) as windows:
        windows.learn(URL, "m", Overflow(limit=8_192))
    async with windows_in(store) as windows:
        store.go_on.clear()
        asked = asyncio.create_task(windows.of(URL, "m"))
        await asyncio.sleep(0)
        windows.learn(URL, "m", Overflow(limit=4_096))
        store.go_on.set()

        assert await asked == LearnedLimits(4_096, None)


async def test_a_store_that_is_down_costs_only_the_restart() -> None:
    store = MonitoredStore()
    store.is_down = True
    async with windows_in(store) as windows:
        for name in "abc":
            windows.learn(URL, name, Overflow(limit=8_192))

        assert await windows.of(URL, "a") == LearnedLimits(8_192, None)

    assert store.told < 3


async def test_closing_does_not_wait_for_a_store_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_behind, "CLOSE_SECONDS", 0.01)
    store = MonitoredStore()
    store.go_on.clear()
    windows = LearnedWindows(store)
    for name in "ab":
        windows.learn(URL, name, Overflow(limit=8_192))

    async with within(5):
        await windows.close()


@pytest.mark.parametrize(
    "row",
    [b"", b"{}", struct.pack(">qd", 3, 1_800_000_000), struct.pack(">qd", 8_192, float("nan"))],
)
async def test_a_row_that_is_not_a_lesson_is_none(row: bytes) -> None:
    store = MonitoredStore()
    await store.put(KIND, store.address(URL.encode(), b"m", b"limit"), row, WEEK)

    async with windows_in(store) as windows:
        assert await windows.of(URL, "m") is None


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_windows, "REMEMBERED_LESSONS", 10)
    async with windows_in(MonitoredStore()) as windows:
        for number in range(100):
            windows.learn(URL, f"{number}", Overflow(limit=8_192))
            await windows.of(URL, f"{number}")

        assert len(windows._known) == 10
        assert await windows.of(URL, "99") == LearnedLimits(8_192, None)
