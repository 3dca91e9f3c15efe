"""F22: what the proxy is made of, where it comes from, and what it does before it is asked."""

import asyncio
import json
import os
import re
import shutil
import sys
import tomllib
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

from chat_proxy import __version__
from tests.packaging.scripts import script
from tests.support.command import ROOT

pytestmark = pytest.mark.anyio

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EPOCH = "1700000000"
IMPORTS = """
import sys
seen = []
def listen(event, arguments):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "urllib.", "ftplib.")):
        seen.append(event)
sys.addaudithook(listen)
import importlib, pkgutil, chat_proxy
names = [it.name for it in pkgutil.walk_packages(chat_proxy.__path__, "chat_proxy.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
import json
print(json.dumps([len(names), seen]))
"""
HARMLESS = {"socket.__new__", "socket.gethostname"}


@pytest.mark.parametrize("name", ["requirements.lock", ".ci/dev.lock"])
def test_f22_every_package_is_pinned_by_its_hash(name: str) -> None:
    """F22: and nothing is installed without, nor looked for beside the lock."""
    pins = list(script("sbom").pins((ROOT / name).read_text()))

    assert len(pins) > 20
    assert all(pin.hashes for pin in pins)
    for file in ("Dockerfile", "Makefile"):
        installs = re.findall(r"pip install.*-r.*", (ROOT / file).read_text())
        assert installs
        assert all("--require-hashes" in line for line in installs)
        assert all("--no-deps" in line for line in installs)


def test_f22_there_are_few_packages_that_we_ask_for() -> None:
    """F22: fifteen at most, Redis included."""
    asked = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["redis"]]

    assert len(asked) <= 15


def test_f22_the_bill_of_materials_names_them_all() -> None:
    """F22: with hashes; tests/supply_chain looks at it closely."""
    lock = (ROOT / "requirements.lock").read_text()

    bill = script("sbom").bill(lock)

    assert len(bill["components"]) == lock.count("==")


async def test_f22_importing_the_app_opens_no_connection_and_starts_nothing() -> None:
    """F22: every module, under an audit hook."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", IMPORTS), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)

    count, seen = json.loads(out)
    assert process.returncode == 0
    assert count > 100
    assert set(seen) <= HARMLESS


async def test_f22_the_wheel_is_the_same_twice_and_holds_nothing_but_the_app(
    tmp_path: Path,
) -> None:
    """F22: built in two places from files of different age; no .pth, nothing compiled."""
    wheels = [await built(tmp_path / place) for place in ("one", "two")]

    assert wheels[0].name == wheels[1].name
    assert digest(wheels[0]) == digest(wheels[1])
    names = ZipFile(wheels[0]).namelist()
    assert {name.partition("/")[0] for name in names} == {
        "chat_proxy",
        f"chat_proxy-{__version__}.dist-info",
    }
    assert [name for name in names if name.endswith((".pth", ".so", ".pyd", ".pyc"))] == []


async def built(folder: Path) -> Path:
    """Build the wheel in a folder of its own."""
    copy_sources(folder)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hatchling", "build", "--target", "wheel"),
        cwd=folder,
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},  # noqa: TID251 - it starts a process
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await asyncio.wait_for(process.wait(), 60) == 0
    return folder / "dist" / f"chat_proxy-{__version__}-py3-none-any.whl"


def copy_sources(folder: Path) -> None:
    """Copy what a wheel is made of; every copy is as old as it is."""
    shutil.copytree(ROOT / "app", folder / "app", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, folder / name)
    for path in folder.rglob("*"):
        path.touch()


def digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()
