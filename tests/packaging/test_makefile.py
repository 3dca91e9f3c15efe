"""`make demo` and `make run` need the packages of the image only."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a fresh checkout, as far as make looks at it."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml", ".ci/dev.lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def made(checkout: Path, target: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Make a target, whatever the make that runs the tests was told."""
    make = ["make", "--no-print-directory", target, *arguments]
    told = ("MAKE", "ARGS")
    env = {name: value for name, value in os.environ.items() if not name.startswith(told)}  # noqa: TID251 - tests start processes
    return subprocess.run(make, cwd=checkout, check=False, capture_output=True, text=True, env=env)


def planned(checkout: Path, target: str, *arguments: str) -> str:
    """Return the commands that make would run."""
    done = made(checkout, target, "--dry-run", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("target", "command"), [("demo", "demo"), ("run", "serve")])
def test_a_fresh_checkout_installs_what_the_image_has_and_runs(
    target: str, command: str, checkout: Path
) -> None:
    plan = planned(checkout, target, "ARGS=--help")

    assert plan.count("--require-hashes --only-binary :all: -r requirements.lock") == 2
    assert "--quiet --no-deps" not in plan
    assert "dev.lock" not in plan
    assert plan.endswith(f"PYTHONPATH=app .venv-run/bin/python -m chat_proxy {command} --help\n")


def test_packages_that_are_there_are_not_installed_again(checkout: Path) -> None:
    (checkout / ".venv-run").mkdir()
    (checkout / ".venv-run" / ".installed").touch()

    assert planned(checkout, "demo").split() == [
        "PYTHONPATH=app", ".venv-run/bin/python", "-m", "chat_proxy", "demo"
    ]  # fmt: skip


def test_contributors_run_it_with_the_packages_that_they_have(checkout: Path) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / ".installed").touch()

    assert planned(checkout, "demo").split() == [
        "PYTHONPATH=app", ".venv/bin/python", "-m", "chat_proxy", "demo"
    ]  # fmt: skip


@pytest.mark.parametrize(("target", "runs"), [("test", 1), ("faults", 2)])
def test_a_test_that_fails_gets_no_second_try(target: str, runs: int, checkout: Path) -> None:
    """Make ends with the first run that fails; what runs again are other orders of the faults."""
    for path in (checkout / ".venv/bin", checkout / ".ci"):
        path.mkdir(parents=True, exist_ok=True)
    (checkout / ".ci/servers").write_text("true\n")
    (checkout / ".venv/.installed").touch()
    (checkout / ".venv/bin/coverage").symlink_to("/bin/true")
    python = checkout / ".venv/bin/python"
    python.write_text('#!/bin/sh\necho "$*" >> log\ntest ! -e fails\n')
    python.chmod(0o755)
    (checkout / "fails").touch()

    failed = made(checkout, target)
    tries = (checkout / "log").read_text().splitlines()
    (checkout / "log").unlink()
    (checkout / "fails").unlink()
    passed = made(checkout, target, "RUNS=2")

    assert failed.returncode != 0
    assert len(tries) == 1
    assert passed.returncode == 0
    assert len((checkout / "log").read_text().splitlines()) == runs


@pytest.mark.parametrize("uv_works", [True, False])
def test_uv_is_used_where_it_works_and_pip_otherwise(uv_works: bool, checkout: Path) -> None:
    bin_ = checkout / "bin"
    bin_.mkdir()
    uv, python = bin_ / "uv", bin_ / "python"
    uv.write_text(f"#!/bin/sh\necho uv $1 >> log\nmkdir -p .venv-run; exit {int(not uv_works)}\n")
    # Makes a virtualenv whose python does the same.
    python.write_text(
        "#!/bin/sh\necho python $1 $2 >> log\n"
        "mkdir -p .venv-run/bin; cp -f $0 .venv-run/bin/python || true\n"
    )
    for file in (uv, python):
        file.chmod(0o755)
    path = f"{bin_}:/usr/bin:/bin"

    subprocess.run(
        ["make", ".venv-run/.installed", f"PYTHON={python}"],
        cwd=checkout,
        check=True,
        capture_output=True,
        env={"PATH": path},
    )

    by_uv = ["uv venv", "uv pip"] if uv_works else ["uv venv"]
    by_pip = [] if uv_works else ["python -m venv", "python -m pip"]
    log = (checkout / "log").read_text().splitlines()
    assert [line for line in log if "-c" not in line] == [*by_uv, *by_pip]


def test_an_old_python_is_refused_in_one_line(checkout: Path) -> None:
    python = checkout / "python"
    pretended = "import sys; sys.version_info = (3, 10); $2"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{pretended}"\n')
    python.chmod(0o755)
    done = subprocess.run(
        ["make", "demo", f"PYTHON={python}"],
        cwd=checkout,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C"},  # noqa: TID251 - tests start processes
    )

    assert done.returncode != 0
    assert "Python 3.11 or newer is needed" in done.stderr
    assert not (checkout / ".venv-run").exists()
