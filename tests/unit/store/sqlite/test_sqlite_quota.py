"""One tenant does not fill the SQLite file: its own oldest rows go first."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from chat_proxy.store.base import Capacity
from chat_proxy.store.purge_selection import Selection
from chat_proxy.store.sqlite.quota import EVICTED_AT_ONCE
from chat_proxy.store.sqlite.schema import ROW_BYTES
from chat_proxy.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio

DAY = 86_400.0
KIB = 1024
TENANT_BYTES = 100 * KIB
FILE_BYTES = 400 * KIB


class Shared:
    """A small store of several tenants, its clock, and what it complained about."""

    def __init__(
        self, folder: Path, tenant_max_bytes: int = TENANT_BYTES, max_bytes: int = FILE_BYTES
    ) -> None:
        self.path = folder / "store.db"
        self.now = 1_800_000_000.0
        self.heard: list[tuple[str, str]] = []
        self.store = SqliteStore(
            self.path,
            capacity=Capacity(max_bytes, tenant_max_bytes),
            notice=lambda *fault: self.heard.append(fault),
            clock=lambda: self.now,
            wait_seconds=20,
        )

    async def put(self, owner: str, number: int, size: int = 10 * KIB) -> bool:
        self.now += 1
        value = bytes([number % 256]) * size
        return await self.store.put("kind", f"{owner}-{number}".encode(), value, DAY, owner)

    async def numbers(self, owner: str, count: int) -> list[int]:
        """Which of a tenant's rows are there."""
        keys = {f"{owner}-{number}".encode(): number for number in range(count)}
        return sorted(keys[key] for key in await self.store.get_many("kind", list(keys)))

    def usage(self) -> dict[str, int]:
        """What the file says of its tenants, which must be what their rows add up to."""
        with closing(sqlite3.connect(self.path)) as file:
            counted = dict(file.execute("SELECT owner, bytes FROM usage").fetchall())
            added_up = dict(
                file.execute(
                    "SELECT owner, sum(length(value) + ?) FROM rows WHERE owner != '' "
                    "GROUP BY owner",
                    (ROW_BYTES,),
                ).fetchall()
            )
        assert counted == added_up
        return counted


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    made = Shared(tmp_path)
    await made.store.open()
    yield made
    await made.store.close()


async def test_a_tenant_over_its_quota_loses_its_own_oldest_rows(shared: Shared) -> None:
    """Issue 22, 11."""
    assert await shared.put("polite", 0)
    for number in range(50):
        assert await shared.put("greedy", number)

    assert await shared.numbers("polite", 1) == [0]
    assert await shared.numbers("greedy", 50) == list(range(41, 50))
    assert shared.usage()["greedy"] <= TENANT_BYTES
    assert shared.heard == []


async def test_a_value_over_the_quota_is_refused_and_evicts_nothing(shared: Shared) -> None:
    await shared.put("greedy", 0)

    assert not await shared.put("greedy", 1, TENANT_BYTES)

    assert await shared.numbers("greedy", 2) == [0]
    assert shared.heard == [("put", "quota")]


async def test_a_row_that_is_written_again_counts_once(shared: Shared) -> None:
    for _ in range(30):
        assert await shared.put("one", 0)
    await shared.put("one", 1, 80 * KIB)

    assert await shared.numbers("one", 2) == [0, 1]
    assert shared.usage() == {"one": 90 * KIB + 2 * ROW_BYTES}


async def test_rows_of_no_tenant_and_of_unknown_ones_have_no_quota(shared: Shared) -> None:
    for owner in ("", None):
        for number in range(12):
            assert await shared.store.put("kind", b"%d" % number, bytes(10 * KIB), DAY, owner)

    assert shared.usage() == {}


async def test_the_sum_is_right_after_leases_expiry_purge_and_a_change_of_owner(
    shared: Shared,
) -> None:
    await shared.store.lease(b"key", 10)
    for owner in ("one", "two"):
        for number in range(5):
            await shared.put(owner, number)
    await shared.store.put("kind", b"one-0", b"two's now", DAY, "two")
    assert set(shared.usage()) == {"one", "two"}

    await shared.store.purge(Selection(tenant="one"))
    assert set(shared.usage()) == {"two"}

    shared.now += 100 * DAY
    for _ in range(200):
        await shared.store.put("kind", b"other", b"", DAY, "")
    assert shared.usage() == {}


async def test_a_full_file_takes_a_polite_tenant_s_rows_in_place_of_the_largest_s(
    tmp_path: Path,
) -> None:
    """Issue 22, 11: many keys of one person, or a quota as large as the file."""
    shared = Shared(tmp_path, tenant_max_bytes=FILE_BYTES * 2)
    await shared.store.open()
    await shared.put("small", 0)
    for number in range(100):
        assert await shared.put("greedy", number)
        assert await shared.put("polite", number % 3)

    assert await shared.numbers("small", 1) == [0]
    assert await shared.numbers("polite", 3) == [0, 1, 2]
    left = await shared.numbers("greedy", 100)
    assert left == list(range(100 - len(left), 100))
    assert len(left) > 20
    assert shared.heard == []
    shared.usage()
    await shared.store.close()


async def test_many_small_rows_are_evicted_in_steps(tmp_path: Path) -> None:
    """No write takes longer than a request waits for it."""
    shared = Shared(tmp_path, (EVICTED_AT_ONCE + 500) * ROW_BYTES, 10**9)
    await shared.store.open()
    for number in range(EVICTED_AT_ONCE + 500):
        await shared.put("one", number, 0)

    large = (EVICTED_AT_ONCE + 400) * ROW_BYTES
    assert not await shared.put("one", 10_000, large)
    assert await shared.put("one", 10_000, large)

    shared.usage()
    await shared.store.close()
