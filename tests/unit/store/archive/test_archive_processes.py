"""Several processes on one archive, processes that are killed over it, and disks that are full."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.read_dialog import read_dialog
from tests.unit.store.kept import TENANT, Kept

pytestmark = pytest.mark.anyio

KILLS = 12
SPANS = 40

WRITER = """
import asyncio, sys
from pathlib import Path
from chat_proxy.store.archive.archive import Archive

async def main():
    archive = Archive(Path(sys.argv[1]), 5, wait_seconds=30)
    for number in range(int(sys.argv[3])):
        name = f"{sys.argv[2]}-{number}"
        messages = [{"role": "user", "content": name * 2_000}] * 3
        place = await archive.keep_dialog(sys.argv[4], name, messages)
        print(name, place.file, place.first, place.last, flush=True)
    await archive.close()

asyncio.run(main())
"""

FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from chat_proxy.store.archive.archive import Archive
from tests.support.read_dialog import read_dialog

async def main():
    heard = []
    folder = Path(sys.argv[1])
    archive = Archive(folder, 5, notice=lambda *said: heard.append(said))
    first = [{"content": "x" * 10_000}]
    assert await archive.keep_dialog("t", "first", first)
    (day,) = (folder / "dialog").glob("*.jsonl")
    before = day.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, 15_000))
    assert await archive.keep_dialog("t", "second", [{"content": "y" * 4_000}] * 3) is None
    assert await archive.keep_result("t", "0" * 32, "z" * 20_000) is None
    assert heard == [("archive_dialog", "efbig"), ("archive_result", "efbig")], heard
    assert day.read_bytes() == before
    assert [p.name for p in (folder / "tool_result").iterdir()] == ["owners"]
    assert (await archive.keep_dialog("t", "third", [{"content": "small"}])).first == 2
    assert read_dialog(folder, "t", "first") == first
    await archive.close()

asyncio.run(main())
"""


@contextmanager
def writer(root: Path, name: str, count: int) -> Iterator["subprocess.Popen[str]"]:
    """A process that keeps spans and tells of each one."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), name, str(count), TENANT],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


def messages(root: Path, told: str) -> list[Any]:
    """What lies where a process said that it put a span."""
    _, file, first, last = told.split()
    lines = (root / file).read_bytes().split(b"\n")[int(first) - 1 : int(last)]
    return [json.loads(line)["message"] for line in lines]


def expected(told: str) -> list[Any]:
    return [{"role": "user", "content": told.split(maxsplit=1)[0] * 2_000}] * 3


def test_two_processes_that_write_at_once_never_mix_their_lines(tmp_path: Path) -> None:
    with writer(tmp_path, "one", SPANS) as one, writer(tmp_path, "two", SPANS) as two:
        told = [*one.communicate()[0].splitlines(), *two.communicate()[0].splitlines()]

    assert len(told) == 2 * SPANS
    for line in told:
        assert messages(tmp_path, line) == expected(line)


async def test_no_half_line_is_taken_for_a_whole_one_after_a_kill(tmp_path: Path) -> None:
    """FAULTS E3: what was acknowledged is there, and later lines are counted right."""
    told: list[str] = []
    for kill in range(KILLS):
        with writer(tmp_path, str(kill), 1_000_000) as process:
            assert process.stdout is not None
            told += [process.stdout.readline() for _ in range(1 + 3 * kill)]
            os.kill(process.pid, signal.SIGKILL)
            told += [line for line in process.stdout if line.endswith("\n")]

    kept = Kept(tmp_path)
    place = await kept.dialog("after", {"role": "user", "content": "after"})
    await kept.archive.close()
    assert kept.lines(place) == [{"role": "user", "content": "after"}]
    for line in told:
        assert messages(tmp_path, line) == expected(line)
    assert read_dialog(tmp_path, TENANT, "3-0") == expected("3-0")


def test_a_full_disk_costs_the_new_texts_and_nothing_else(tmp_path: Path) -> None:
    """FAULTS D3, D12."""
    subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path)], check=True)
