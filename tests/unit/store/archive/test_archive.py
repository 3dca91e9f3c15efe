"""The archive: what it writes, what it gives back, and what it leaves alone."""

import asyncio
import errno
import json
import os
import stat
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_proxy.store.archive.dialog import DialogPlace, Span
from chat_proxy.store.archive.files import alone_in_archive
from tests.support.read_dialog import read_dialog
from tests.unit.store.kept import DAY, NOON, OTHER, TENANT, Kept

pytestmark = pytest.mark.anyio

ID = "0123456789abcdef" * 2
HELLO = {"role": "user", "content": "Grüße, 世界 \u2028 \n\r\x00"}
ANSWER = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}], "x": 1e-7}


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    made = Kept(tmp_path / "data")
    yield made
    await made.archive.close()


async def test_a_span_is_found_where_the_archive_says(kept: Kept) -> None:
    await kept.dialog("one", HELLO)

    place = await kept.dialog("two", HELLO, ANSWER, HELLO)

    assert place == DialogPlace("dialog/2026-03-01.jsonl", 2, 4)
    assert kept.lines(place) == [HELLO, ANSWER, HELLO]


async def test_a_line_tells_its_tenant_its_history_and_its_index(kept: Kept) -> None:
    place = await kept.dialog("chain", ANSWER, start=7, after="before")

    line = json.loads((kept.root / place.file).read_bytes())

    assert line == {
        "tenant": TENANT,
        "chain": "chain",
        "after": "before",
        "index": 7,
        "message": ANSWER,
    }


async def test_the_same_span_is_written_once_by_whoever_asks(kept: Kept) -> None:
    first = await kept.dialog("chain", HELLO, ANSWER)
    kept.clock.now += DAY
    other = Kept(kept.root)
    await kept.dialog("more", ANSWER)

    again = await other.dialog("chain", HELLO, ANSWER)

    assert again == first
    assert len((kept.root / first.file).read_bytes().splitlines()) == 2
    await other.archive.close()


async def test_other_messages_under_the_same_name_have_a_place_of_their_own(kept: Kept) -> None:
    first = await kept.dialog("chain", HELLO)

    assert await kept.dialog("chain", ANSWER) != first
    assert await kept.dialog("chain", HELLO, start=1) != first


async def test_a_history_is_put_together_from_its_spans(kept: Kept) -> None:
    messages = [{"role": "user", "content": str(number)} for number in range(12)]
    await kept.dialog("at-4", *messages[:4])
    kept.clock.now += DAY
    await kept.dialog("at-9", *messages[4:9], start=4, after="at-4")
    await kept.dialog("branch", HELLO, start=4, after="at-4")
    await kept.dialog("at-12", *messages[9:], start=9, after="at-9")

    assert read_dialog(kept.root, TENANT, "at-12") == messages
    assert read_dialog(kept.root, TENANT, "branch") == [*messages[:4], HELLO]
    assert read_dialog(kept.root, OTHER, "at-12") == []


async def test_histories_that_go_in_a_circle_end(kept: Kept) -> None:
    await kept.dialog("a", HELLO, after="b")
    await kept.dialog("b", ANSWER, start=1, after="a")

    assert read_dialog(kept.root, TENANT, "a") == [HELLO, ANSWER]


def test_where_nothing_was_kept_nothing_is_read(tmp_path: Path) -> None:
    assert read_dialog(tmp_path / "missing", TENANT, "chain") == []
    assert read_dialog(tmp_path, TENANT, "chain") == []
    assert list(tmp_path.iterdir()) == []


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.dictionaries(st.text(st.characters(exclude_categories=[])), JSON), max_size=4))
def test_every_message_reads_as_it_was_on_a_line_of_its_own(messages: list[Any]) -> None:
    lines = Span(TENANT, "chain", messages).lines().split(b"\n")

    assert [json.loads(line)["message"] for line in lines[:-1]] == messages
    assert lines[-1] == b""


async def test_a_span_of_nothing_has_no_place(kept: Kept) -> None:
    assert await kept.archive.keep_dialog(TENANT, "chain", []) is None
    assert kept.heard == []


@pytest.mark.parametrize("name", ["", "../x", 'a"b', "a\n", "a b", "x" * 129, "é", "a\0"])
async def test_names_that_are_not_plain_are_refused(kept: Kept, name: str) -> None:
    """FAULTS F11."""
    assert await kept.archive.keep_dialog(name, "chain", [HELLO]) is None
    assert await kept.archive.keep_dialog(TENANT, name, [HELLO]) is None
    assert await kept.archive.keep_result(name, ID, "text") is None

    assert {reason for _, reason in kept.heard} == {"valueerror"}
    assert not any(name.endswith((".jsonl", ".txt")) for name in kept.files())


async def test_a_message_that_is_no_json_is_a_notice(kept: Kept) -> None:
    assert await kept.archive.keep_dialog(TENANT, "chain", [{"content": object()}]) is None

    assert kept.heard == [("archive_dialog", "typeerror")]


async def test_a_result_is_a_file_with_its_text(kept: Kept) -> None:
    path = await kept.archive.keep_result(TENANT, ID, "Grüße\r\nline 2\ud800")

    assert path == kept.root / "tool_result" / f"{ID}.txt"
    assert path.read_bytes() == "Grüße\r\nline 2?".encode()


async def test_a_result_that_is_there_is_left_and_stays_longer(kept: Kept) -> None:
    path = await kept.archive.keep_result(TENANT, ID, "text")
    assert path is not None
    inode = path.stat().st_ino

    kept.clock.now += 4 * DAY
    assert await kept.archive.keep_result(TENANT, ID, "text") == path
    kept.clock.now += 4 * DAY
    await kept.archive.sweep()

    assert path.stat().st_ino == inode


@pytest.mark.parametrize(
    "name",
    [
        "../" + "a" * 29,
        "%2e%2e",
        "a\0" * 16,
        "A" * 32,
        "a" * 31,
        "a" * 300,
        "CON",
        ID + "\n",
        "\u0661" * 32,
    ],
)
async def test_an_id_that_is_none_reaches_no_file(kept: Kept, name: str) -> None:
    """FAULTS F11."""
    assert await kept.archive.keep_result(TENANT, name, "text") is None

    assert kept.heard == [("archive_result", "valueerror")]
    assert not kept.root.exists()


async def test_a_link_instead_of_a_result_is_replaced_and_not_followed(
    kept: Kept, tmp_path: Path
) -> None:
    """FAULTS F11."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    await kept.result(1, "first")
    (kept.root / "tool_result" / f"{ID}.txt").symlink_to(victim)
    (kept.root / "tool_result" / f"{ID}.txt.draft").symlink_to(victim)

    path = await kept.archive.keep_result(TENANT, ID, "text")

    assert path is not None
    assert (path.read_text(), victim.read_text()) == ("text", "mine")
    assert not path.is_symlink()


@pytest.mark.parametrize("plant", ["symlink", "hardlink", "fifo"])
async def test_what_is_not_a_file_of_the_archive_is_not_written_to(
    kept: Kept, tmp_path: Path, plant: str
) -> None:
    """FAULTS F11."""
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    await kept.result(1, "first")
    place = kept.root / "dialog" / "2026-03-01.jsonl"
    if plant == "symlink":
        place.symlink_to(victim)
    elif plant == "hardlink":
        place.hardlink_to(victim)
    else:
        os.mkfifo(place)

    assert await kept.archive.keep_dialog(TENANT, "chain", [HELLO]) is None

    assert victim.read_text() == "mine\n"
    assert kept.heard[0][0] == "archive_dialog"


@pytest.mark.parametrize("name", ["dialog", "tool_result"])
async def test_a_folder_that_is_a_link_is_refused(kept: Kept, tmp_path: Path, name: str) -> None:
    """FAULTS F11."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    kept.root.mkdir()
    (kept.root / name).symlink_to(elsewhere)

    assert await kept.archive.keep_dialog(TENANT, "chain", [HELLO]) is None

    assert kept.heard == [("archive_dialog", "enotdir")]
    assert list(elsewhere.iterdir()) == []


async def test_files_and_folders_are_the_owner_s_alone(kept: Kept) -> None:
    """FAULTS F21."""
    await kept.dialog("chain", HELLO)
    await kept.result(1, "text")

    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in kept.root.rglob("*")}

    assert stat.S_IMODE(kept.root.stat().st_mode) == 0o700
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


async def test_a_new_day_begins_a_new_file_at_midnight_utc(kept: Kept) -> None:
    kept.clock.now = NOON + DAY / 2 - 1
    before = await kept.dialog("before", HELLO)
    kept.clock.now += 1

    after = await kept.dialog("after", HELLO)

    assert before == DialogPlace("dialog/2026-03-01.jsonl", 1, 1)
    assert after == DialogPlace("dialog/2026-03-02.jsonl", 1, 1)


async def test_a_half_line_is_never_taken_for_a_whole_one(kept: Kept) -> None:
    """FAULTS E3: whoever was killed while writing leaves half a line."""
    first = await kept.dialog("chain", HELLO)
    file = kept.root / first.file
    whole = file.read_bytes()
    file.write_bytes(whole + whole.replace(b'"index":0', b'"index":1')[:-1] * 5_000)

    assert read_dialog(kept.root, TENANT, "chain") == [HELLO]
    second = await kept.dialog("second", ANSWER)

    assert second == DialogPlace(first.file, 2, 2)
    assert kept.lines(second) == [ANSWER]
    assert file.read_bytes().startswith(whole + b'{"tenant"')


async def test_a_file_of_half_a_line_begins_anew(kept: Kept) -> None:
    (kept.root / "dialog").mkdir(parents=True)
    (kept.root / "dialog" / "2026-03-01.jsonl").write_bytes(b'{"tenant":"')

    assert (await kept.dialog("chain", HELLO)).first == 1


async def test_what_a_kill_left_out_of_the_index_is_written_again_and_read_once(kept: Kept) -> None:
    """FAULTS E3."""
    place = await kept.dialog("chain", HELLO, ANSWER)
    (kept.root / place.file).with_suffix(".index").write_bytes(b"half an ind")

    again = await kept.dialog("chain", HELLO, ANSWER)

    assert again == DialogPlace(place.file, 3, 4)
    assert read_dialog(kept.root, TENANT, "chain") == [HELLO, ANSWER]


async def test_what_does_not_reach_the_disk_is_taken_back(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAULTS D12."""
    place = await kept.dialog("chain", HELLO)
    await kept.result(1, "text")
    before = {name: (kept.root / name).read_bytes() for name in kept.files()}

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert await kept.archive.keep_dialog(TENANT, "next", [ANSWER]) is None
        assert await kept.result(2, "next") is None

    assert kept.heard == [("archive_dialog", "enospc"), ("archive_result", "enospc")]
    assert {name: (kept.root / name).read_bytes() for name in kept.files()} == before
    assert (await kept.dialog("next", ANSWER)).first == place.last + 1


async def test_a_draft_that_cannot_be_finished_is_removed(kept: Kept) -> None:
    (kept.root / "tool_result" / f"{1:032x}.txt").mkdir(parents=True)

    assert await kept.result(1, "text") is None

    assert kept.heard == [("archive_result", "eisdir")]
    assert kept.files() == {"tool_result/owners"}


async def test_a_caller_that_is_cancelled_leaves_the_write_undisturbed(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_go_on = threading.Event(), threading.Event()

    def slow_lines(span: Span, lines: Any = Span.lines) -> bytes:
        begun.set()
        may_go_on.wait(10)
        return bytes(lines(span))

    monkeypatch.setattr(Span, "lines", slow_lines)
    caller = asyncio.create_task(kept.archive.keep_dialog(TENANT, "chain", [HELLO]))
    await asyncio.to_thread(begun.wait, 10)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    may_go_on.set()

    await kept.archive.sweep()

    assert read_dialog(kept.root, TENANT, "chain") == [HELLO]


async def test_an_archive_that_another_holds_costs_the_bound_and_a_notice(tmp_path: Path) -> None:
    kept = Kept(tmp_path, wait_seconds=0.1)
    with alone_in_archive(tmp_path, 1):
        places = await asyncio.gather(
            *(kept.archive.keep_dialog(TENANT, f"chain-{number}", [HELLO]) for number in range(20))
        )
    await asyncio.sleep(0.2)

    assert places == [None] * 20
    assert {reason for _, reason in kept.heard} <= {"slow", "etimedout"}
    assert (await kept.dialog("after", HELLO)).first <= 2
    await kept.archive.close()


async def test_a_failing_sweep_is_a_notice(kept: Kept) -> None:
    kept.root.write_text("a file where the folder should be")

    await kept.archive.sweep()

    assert kept.heard == [("archive_sweep", "eexist")]


async def test_a_closed_archive_keeps_nothing(kept: Kept) -> None:
    await kept.archive.open()
    await kept.archive.close()

    assert await kept.archive.keep_dialog(TENANT, "chain", [HELLO]) is None
    assert await kept.result(1, "text") is None
