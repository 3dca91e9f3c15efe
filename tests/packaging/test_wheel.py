"""The wheel: what is in it, and that it runs where nothing of the checkout is at hand."""

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from pathlib import Path

import pytest

from chat_proxy import __version__
from chat_proxy.config.environment import setting_names

ROOT = Path(__file__).parents[2]
STORY = "A long conversation goes through the proxy"
UNREACHABLE = ("Failed to fetch", "Could not connect", "dns error", "error sending request")
STORY_SECONDS = 100


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([*build, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("chat_proxy-*.whl")
    return built


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel by pip into a virtualenv of its own; return its command.

    Its dependencies are those of the virtualenv of the tests, so that no index is needed.
    """
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(venv), "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True)
    return venv / "bin" / "chat-proxy"


def clean_environment() -> dict[str, str]:
    """Return the environment of somebody who has no checkout."""
    kept = {name: it for name, it in os.environ.items() if name != "PYTHONPATH"}  # noqa: TID251
    return {**kept, "CHAT_PROXY_SERVER_PORT": "0"}


def output_of(command: Path, *arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        [command, *arguments], cwd=cwd, env=clean_environment(), check=True, capture_output=True
    )
    return done.stdout.decode()


@contextmanager
def running(command: list[str], cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a command in a process group of its own, which is ended as by Ctrl-C."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    ending = threading.Timer(STORY_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
    ending.start()
    try:
        yield process
    finally:
        ending.cancel()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.communicate()


def story_of(command: list[str], cwd: Path) -> tuple[list[str], bool]:
    """Run the demo until its story begins; return what it said, and whether it did."""
    said: list[str] = []
    with running([*command, "demo", "--story"], cwd) as process:
        assert process.stdout
        for line in process.stdout:
            said.append(line)
            if STORY in line:
                return said, True
    return said, False


def test_the_wheel_holds_one_package_with_all_its_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = ROOT / "app" / "chat_proxy"
    tracked = {
        f"chat_proxy/{path.relative_to(package)}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert {name.split("/")[0] for name in names} == {
        "chat_proxy",
        f"chat_proxy-{__version__}.dist-info",
    }
    assert tracked <= names


def test_the_wheel_says_what_it_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"chat_proxy-{__version__}.dist-info/METADATA")
    metadata = message_from_bytes(text)
    needed = [it for it in metadata.get_all("Requires-Dist", []) if "extra ==" not in it]

    assert metadata["Requires-Python"] == ">=3.11"
    assert "redis" in metadata.get_all("Provides-Extra", [])
    assert 0 < len(needed) <= 12


def test_running_it_takes_no_more_than_forty_packages() -> None:
    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8")

    assert 0 < len(re.findall(r"^\w.*==", locked, re.MULTILINE)) <= 40


def test_pip_installs_a_command_that_knows_its_version_and_settings(
    command: Path, tmp_path: Path
) -> None:
    version = output_of(command, "--version", cwd=tmp_path)
    settings = json.loads(output_of(command, "settings", "--json", cwd=tmp_path))

    assert version == f"{__version__}\n"
    assert [setting["name"] for setting in settings] == list(setting_names())


def test_what_runs_is_the_installed_package(command: Path, tmp_path: Path) -> None:
    python = command.with_name("python")

    where = output_of(python, "-c", "import chat_proxy; print(chat_proxy.__file__)", cwd=tmp_path)

    assert where.startswith(str(command.parents[1]))


def test_the_installed_command_tells_the_demo_s_story(command: Path, tmp_path: Path) -> None:
    said, has_begun = story_of([str(command)], tmp_path)

    assert has_begun, "".join(said)
    assert said[0].startswith("chat-proxy demo: a 4096-token demo model behind the proxy at")


@pytest.mark.parametrize("source", ["the wheel", "the checkout"])
def test_uvx_runs_the_demo(source: str, wheel: Path, tmp_path: Path) -> None:
    """With the locked versions; where no package index can be reached, there is nothing to try."""
    uvx = [sys.executable, "-m", "uv", "tool", "run", "--python", sys.executable]
    locked = ["--constraints", str(ROOT / "requirements.lock")]
    given = str(wheel if source == "the wheel" else ROOT)

    said, has_begun = story_of([*uvx, *locked, "--from", given, "chat-proxy"], tmp_path)

    skip_without_index(has_begun, "".join(said))
    assert has_begun, "".join(said)


def test_pipx_installs_the_command(wheel: Path, tmp_path: Path) -> None:
    """By uv, which pipx finds beside the interpreter of the tests."""
    environment = {
        **clean_environment(),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # noqa: TID251
        "PIPX_HOME": str(tmp_path / "home"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
    }
    pipx = [sys.executable, "-m", "uv", "tool", "run", "pipx", "install", "--backend", "uv"]
    done = subprocess.run(
        [*pipx, "--python", sys.executable, str(wheel)],
        cwd=tmp_path,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )

    skip_without_index(done.returncode == 0, done.stderr)
    assert done.returncode == 0, done.stderr
    version = output_of(tmp_path / "bin" / "chat-proxy", "--version", cwd=tmp_path)
    assert version == f"{__version__}\n"


def skip_without_index(has_worked: bool, said: str) -> None:
    if not has_worked and any(word in said for word in UNREACHABLE):
        pytest.skip("no package index can be reached")
