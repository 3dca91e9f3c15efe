"""Known bugs, each as a patch of a few lines, and a copy of the app to bring them back in.

A patch is a unified diff under two lines of its own: the rule that it breaks, and the names of the
tests that must notice. Where those stand, and its own lines within their file, does not matter, so
that code and tests may move.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import copy2, copytree, ignore_patterns
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PATCHES = Path(__file__).parent / "reintroduced"
CAUGHT_BY = "Caught by: "

# What takes longest to import is imported once; every run is a fork of the process that has it.
_WORKSHOP = """
import json, os, sys
import aiohttp, fastapi, httpx, hypothesis, openai, prometheus_client, pydantic_settings, pytest
import tiktoken, uvicorn

os.environ["COLUMNS"] = "1000"
sys.dont_write_bytecode = True
for line in sys.stdin:
    copy, said, *arguments = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(copy)
        sys.path[:0] = [copy, os.path.join(copy, "app")]
        paper = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(paper, 1)
        os.dup2(paper, 2)
        import chat_proxy
        print("chat_proxy is", chat_proxy.__file__, flush=True)
        code = pytest.main(arguments)
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said, flush=True)
"""
_QUIETLY = (
    *("-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", "-p", "pytest_timeout"),
    *("--disable-plugin-autoload", "-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
_FAILED = re.compile(r"^FAILED (\S+?)(?:\[.*?\])? - (.*)$", re.MULTILINE)
_BY_ASSERTION = re.compile(r"assert |AssertionError|Failed: DID NOT RAISE")


class Hunk(NamedTuple):
    """Lines of a file, and those that take their place."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    """A bug that was fixed or never made, ready to be made again."""

    name: str
    rule: str
    tests: tuple[str, ...]
    hunks: tuple[Hunk, ...]

    def bring_back(self, copy: Path) -> None:
        """Change the copied app; lines that are no longer there say so."""
        for hunk in self.hunks:
            file = copy / hunk.file
            text = file.read_text()
            found = text.count(hunk.old)
            assert found == 1, (
                f"{self.name}: these lines stand {found} times in {hunk.file}; "
                f"write the patch anew for the code as it is now:\n{hunk.old}"
            )
            file.write_text(text.replace(hunk.old, hunk.new))


def bugs() -> list[Bug]:
    """Read all patches, in the order of their numbers."""
    return [read_bug(file.stem, file.read_text()) for file in sorted(PATCHES.glob("*.patch"))]


def read_bug(name: str, patch: str) -> Bug:
    """Read one patch."""
    head, _, diff = patch.partition("--- a/")
    rule, caught, *_ = head.splitlines()
    tests = caught.removeprefix(CAUGHT_BY).split()
    return Bug(name, rule, tuple(tests), tuple(_hunks(f"--- a/{diff}")))


def _hunks(diff: str) -> Iterator[Hunk]:
    for of_file in re.split(r"^--- a/.*\n", diff, flags=re.MULTILINE)[1:]:
        name, *hunks = re.split(r"^@@.*\n", of_file, flags=re.MULTILINE)
        file = name.strip().removeprefix("+++ b/")
        for hunk in hunks:
            lines = hunk.splitlines(keepends=True)
            yield Hunk(file, _side(lines, " -"), _side(lines, " +"))


def _side(lines: Sequence[str], marks: str) -> str:
    return "".join(line[1:] for line in lines if line[0] in marks)


@cache
def _sources() -> dict[str, str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {str(file.relative_to(ROOT)): file.read_text() for file in files}


def node_id(test: str) -> str:
    """Return where a test stands; one that is gone, or has a namesake, says so."""
    found = [file for file, source in _sources().items() if f"def {test}(" in source]
    assert len(found) == 1, f"{test} stands in {found or 'no file'}; name another in the patch"
    return f"{found[0]}::{test}"


def copy_of_the_project(folder: Path) -> Path:
    """Copy the app and its tests, with what Python made of them, as that saves time."""
    for name in ("app", "tests", "tools"):
        copytree(ROOT / name, folder / name, ignore=ignore_patterns("reintroduced"))
    copy2(ROOT / "pyproject.toml", folder)
    return folder


@dataclass(frozen=True)
class Run:
    """What became of some tests."""

    code: int
    words: str

    def noticed(self) -> set[str]:
        """Return the tests that failed, all of them by an assertion."""
        found = _FAILED.findall(self.words)
        assert found, self.words
        for test, why in found:
            assert _BY_ASSERTION.search(why), f"{test} failed by something else: {why}"
        return {test.rpartition("::")[2] for test, _ in found}


class Workshop:
    """Runs tests in copies, each on the app of its copy and no other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, copy: Path, tests: Sequence[str]) -> Run:
        """Run some tests by their names and return what became of them."""
        return self.run_nodes(copy, [node_id(test) for test in tests])

    def run_nodes(self, copy: Path, nodes: Sequence[str], options: Sequence[str] = ()) -> Run:
        """Run some tests by their places."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        said = copy / "said.txt"
        job = [str(copy), str(said), *_QUIETLY, *options, *nodes]
        print(json.dumps(job), file=self._process.stdin, flush=True)
        code, of = "", ""
        while of != str(said):  # a run that its test did not wait for may end meanwhile
            code, _, of = self._process.stdout.readline().rstrip("\n").partition(" ")
            assert code, "the workshop has closed"
        words = said.read_text()
        assert f"chat_proxy is {copy / 'app' / 'chat_proxy' / '__init__.py'}" in words, words
        return Run(int(code), words)


@contextmanager
def open_workshop(folder: Path) -> Iterator[Workshop]:
    """Keep a workshop open, away from the project's own app."""
    command = [sys.executable, "-P", "-c", _WORKSHOP]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdin=pipe, stdout=pipe, text=True) as process:
        yield Workshop(process)
