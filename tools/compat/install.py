"""Installs every client into a folder of its own, once for each set of pinned versions."""

import asyncio
import json
import os
import sys
from pathlib import Path

from tools.compat.lineup import INSTALLED, NODE, Client

SECONDS = 900
NODE_HOME = INSTALLED / "node"
NODE_BIN = NODE_HOME / "node_modules" / "node" / "bin"
PIP = ("-m", "pip", "install", "--quiet")
NPM = ("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--save-exact")


class NotInstalled(Exception):
    """A package manager said no."""


async def install(client: Client) -> None:
    """Install the client, unless it is there already with these versions."""
    if client.from_npm:
        await _once(NODE_HOME, [NODE], [*NPM, "--prefix", str(NODE_HOME), NODE])
        await _once(client.home, client.pins, [*NPM, "--prefix", str(client.home), *client.pins])
    else:
        python = str(client.home / "bin" / "python")
        venv = [sys.executable, "-m", "venv", "--clear", str(client.home)]
        await _once(client.home, client.pins, venv, [python, *PIP, *client.pins])


async def _once(folder: Path, pins: list[str], *commands: list[str]) -> None:
    note = folder / "pins.json"
    if is_written(note, pins):
        return
    for command in commands:
        await _run(command)
    note.write_text(json.dumps(pins), encoding="utf-8")


def is_written(note: Path, pins: list[str]) -> bool:
    """Whether these very versions were installed; a folder for them is made if there is none."""
    note.parent.mkdir(parents=True, exist_ok=True)
    return note.exists() and json.loads(note.read_text(encoding="utf-8")) == pins


async def _run(command: list[str]) -> None:
    """Run a package manager with this machine's own configuration of it."""
    path = f"{NODE_BIN}{os.pathsep}{os.environ['PATH']}"  # noqa: TID251 - tests start processes
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "PATH": path},  # noqa: TID251 - tests start processes
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise NotInstalled(f"{command[0]} took more than {SECONDS} s") from None
    if process.returncode:
        raise NotInstalled(said.decode(errors="replace").strip()[-300:])
