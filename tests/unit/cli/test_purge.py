"""`chat-proxy purge`: what it deletes, what it says, and how it ends."""

import asyncio
import io
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.cli.purge import purge, tenant_of
from chat_proxy.config.settings import Settings
from chat_proxy.errors import BadConfiguration
from chat_proxy.store.archive.archive import Archive
from chat_proxy.store.archive.files import alone_in_archive
from chat_proxy.store.sqlite.store import SqliteStore
from tests.support.live import settings as settings_of

KEY = "sk-the-key-of-the-deleted-tenant"
TENANT = sha256(KEY.encode()).hexdigest()
OTHER = "b" * 64
CANARY = "canary-of-the-deleted-tenant"
DAY = 86_400.0


def placed(folder: Path, **store: Any) -> Settings:
    """Settings by which everything is kept in a folder."""
    chosen = {"url": f"sqlite:///{folder}/chat-proxy.db", **store}
    return settings_of(archive={"dir": folder, "retention_days": 5}, store=chosen)


def fill(folder: Path) -> None:
    asyncio.run(_fill(folder))


async def _fill(folder: Path) -> None:
    archive = Archive(folder, 5)
    store = SqliteStore(folder / "chat-proxy.db", wait_seconds=10)
    await store.open()
    for tenant, word in ((TENANT, CANARY), (OTHER, "another's word")):
        assert await archive.keep_dialog(tenant, "chain", [{"role": "user", "content": word}])
        assert await archive.keep_result(tenant, sha256(word.encode()).hexdigest()[:32], word)
        assert await store.put("checkpoint", word.encode(), word.encode() * 99, DAY, tenant)
    await archive.close()
    await store.close()


def words_in(folder: Path, word: str) -> int:
    """In how many files a word is."""
    return sum(word.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_tenant_leaves_no_byte_in_the_data_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FAULTS F21."""
    fill(tmp_path)

    code = purge(placed(tmp_path), None, TENANT, everything=False)

    assert code == 0
    assert [words_in(tmp_path, word) for word in (CANARY, TENANT, KEY)] == [0, 0, 0]
    assert words_in(tmp_path, "another's word") == 3
    assert capsys.readouterr().out.startswith("purged 1 files, 1 lines, 1 rows: ")


def test_everything_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path)

    assert purge(placed(tmp_path), None, None, everything=True) == 0

    assert words_in(tmp_path, CANARY) + words_in(tmp_path, "another's word") == 0
    assert "3 files, 2 lines, 2 rows" in capsys.readouterr().out


def test_what_is_young_stays(tmp_path: Path) -> None:
    fill(tmp_path)

    assert purge(placed(tmp_path), 1, None, everything=False) == 0

    assert words_in(tmp_path, CANARY) == 3


def test_where_nothing_was_kept_nothing_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert purge(placed(tmp_path / "data"), 0, None, everything=False) == 0

    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == "purged 0 files, 0 lines, 0 rows: 0 bytes\n"


def test_a_store_in_memory_has_nothing_to_purge(tmp_path: Path) -> None:
    assert purge(placed(tmp_path, url="memory:"), 0, None, everything=False) == 0


def test_a_store_elsewhere_is_not_purged_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path)

    code = purge(placed(tmp_path, url="redis://localhost/0"), None, TENANT, everything=False)

    said = capsys.readouterr()
    assert code == 1
    assert "not purged: the store is not a file" in said.err
    assert said.out.startswith("purged 1 files, 1 lines, 0 rows")


def test_a_store_is_purged_though_the_archive_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    monkeypatch.setattr("chat_proxy.cli.purge.WAIT_SECONDS", 0.2)

    with alone_in_archive(tmp_path, 1):
        code = purge(placed(tmp_path), None, None, everything=True)

    said = capsys.readouterr()
    assert code == 1
    assert "another process holds the archive" in said.err
    assert "2 rows" in said.out


def test_a_damaged_store_is_deleted_with_what_it_held(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chat-proxy.db").write_bytes(b"no database " + CANARY.encode() * 99)

    code = purge(placed(tmp_path, secret="s" * 32), None, TENANT, everything=False)

    assert code == 0
    assert words_in(tmp_path, CANARY) == 0
    assert "store fault during open: corrupt" in capsys.readouterr().err


def test_a_key_is_read_from_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{KEY}\n".encode())))

    assert tenant_of("-") == TENANT


def test_no_key_on_the_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n")))

    with pytest.raises(BadConfiguration, match="no API key"):
        tenant_of("-")


def test_a_key_as_an_argument_is_refused_and_not_repeated(tmp_path: Path) -> None:
    """FAULTS F13."""
    with pytest.raises(BadConfiguration) as refused:
        purge(placed(tmp_path), None, KEY, everything=False)

    assert KEY not in str(refused.value)
    assert tenant_of("anonymous") == "anonymous"


@pytest.mark.parametrize(
    ("days", "everything", "said"),
    [
        (None, False, "specify what to delete"),
        (1, True, "--all deletes everything: use it alone"),
        (-1, False, "an age must be"),
    ],
)
def test_it_must_be_clear_what_to_delete(
    tmp_path: Path, days: float | None, everything: bool, said: str
) -> None:
    with pytest.raises(BadConfiguration, match=f"purge: {said}"):
        purge(placed(tmp_path), days, None, everything=everything)
