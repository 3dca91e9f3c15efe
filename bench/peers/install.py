"""Install a gateway of the field into an environment of its own under `bench/.peers/`.

The versions are fixed: a figure means nothing without them, and a new release is not run unseen.
"""

import subprocess
import sys
from pathlib import Path

INSTALL_SECONDS = 900

_FOLDER = Path(__file__).resolve().parents[1] / ".peers"


class PeerUnavailable(Exception):
    """A peer cannot be installed here; the text says why."""


def folder_of(name: str, version: str) -> Path:
    """Return where a version of a peer is installed."""
    return _FOLDER / f"{name.lower()}-{version}"


def install_from_pypi(folder: Path, requirement: str) -> None:
    """Install a package and what it needs into a virtual environment, once."""
    venv = [sys.executable, "-m", "venv", "--clear", str(folder)]
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", requirement]
    install_once(folder, [venv, pip])


def install_once(folder: Path, commands: list[list[str]]) -> None:
    """Run the commands unless they have succeeded before."""
    done = folder / "installed"
    if done.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for command in commands:
        _run(command)
    done.touch()


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=INSTALL_SECONDS)
    except subprocess.CalledProcessError as error:
        last = (error.stderr or error.stdout or "no output").strip().splitlines()[-1]
        reason = f"{Path(command[0]).name} failed: {last}"
        raise PeerUnavailable(reason) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerUnavailable(str(error)) from error
