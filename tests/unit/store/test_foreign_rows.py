"""Rows of types that we never write: SQLite lets anything stand in any column."""

import sqlite3
from pathlib import Path

import pytest

from chat_proxy.store.sqlite.schema import INSERT
from chat_proxy.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio

KEY = b"k" * 32
SEAL = b"s" * 32
LATER = 2**40


@pytest.mark.parametrize(
    ("value", "expires", "seal"),
    [
        ("a text", LATER, SEAL),
        (7, LATER, SEAL),
        (b"value", "never", SEAL),
        (b"value", b"never", SEAL),
        (b"value", 1e300, SEAL),
        (b"value", LATER, "é" * 32),
        (b"value", LATER, 7),
    ],
    ids=lambda it: type(it).__name__,
)
async def test_a_row_of_foreign_types_is_a_miss(
    tmp_path: Path, value: object, expires: object, seal: object
) -> None:
    """FAULTS D9; found by fuzzing: such a row raised TypeError into the request that asked."""
    noticed: list[str] = []
    store = SqliteStore(
        tmp_path / "store.db", notice=lambda _, kind: noticed.append(kind), wait_seconds=10
    )
    await store.open()
    with sqlite3.connect(tmp_path / "store.db") as file:
        file.execute(INSERT, ("kind", KEY, expires, seal, None, 0, value))
    file.close()

    found = await store.get_many("kind", [KEY])
    await store.close()

    assert found == {}
    assert noticed == ["integrity"]
