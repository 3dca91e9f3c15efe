import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest

from chat_proxy.config.environment import setting_names

ROOT = Path(__file__).parents[2]
PYTHON = "3.13"
UNREACHABLE = ("Failed to fetch", "Could not connect", "dns error", "error sending request")


class Instruction(NamedTuple):
    word: str
    rest: str


def instructions() -> list[Instruction]:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", text)
    parts = (line.split(maxsplit=1) for line in joined.splitlines() if line)
    return [Instruction(word, rest) for word, rest in parts]


def stages() -> tuple[list[Instruction], list[Instruction]]:
    every = instructions()
    first, second = (number for number, line in enumerate(every) if line.word == "FROM")
    return every[first:second], every[second:]


def in_stage(stage: list[Instruction], word: str) -> list[str]:
    return [instruction.rest for instruction in stage if instruction.word == word]


def copied_from_the_checkout() -> list[str]:
    copies = (line.rest.split() for line in instructions() if line.word == "COPY")
    return [source for words in copies if "--from=build" not in words for source in words[:-1]]


def test_both_stages_have_the_same_python() -> None:
    build, runtime = stages()

    assert in_stage(build, "FROM") == [f"python:{PYTHON}-slim-bookworm AS build"]
    assert in_stage(runtime, "FROM") == [f"python:{PYTHON}-slim-bookworm"]


def test_the_image_s_python_and_the_oldest_one_are_tested() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    (versions,) = re.findall(r"python: \[(.*)\]", workflow)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert {PYTHON, project["requires-python"].removeprefix(">=")} <= set(
        re.findall(r"[\d.]+", versions)
    )
    assert f"Programming Language :: Python :: {PYTHON}" in project["classifiers"]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_locked_package_has_a_wheel_for_the_image(machine: str, tmp_path: Path) -> None:
    """Where no package index can be reached, there is nothing to be asked."""
    command = [sys.executable, "-m", "uv", "pip", "install", "--dry-run", "--no-deps"]
    command += ["--require-hashes", "--only-binary", ":all:", "--target", str(tmp_path)]
    command += ["--python-version", PYTHON, "--python-platform", f"{machine}-manylinux_2_36"]

    asked = subprocess.run(
        [*command, "-r", "requirements.lock"], cwd=ROOT, check=False, capture_output=True, text=True
    )

    if any(word in asked.stderr for word in UNREACHABLE):
        pytest.skip("no package index can be reached")
    assert asked.returncode == 0, asked.stderr
    assert re.search(r"Would install \d+ packages", asked.stderr)


def test_dependencies_are_what_the_lock_says_to_the_byte() -> None:
    build, runtime = stages()

    locked, ours = (rest for rest in in_stage(build, "RUN") if rest.startswith("pip install"))

    assert "--require-hashes" in locked
    assert "--no-deps" in locked
    assert "-r requirements.lock" in locked
    assert "--no-deps" in ours
    assert not any("pip" in rest for rest in in_stage(runtime, "RUN"))


@pytest.mark.parametrize("source", copied_from_the_checkout())
def test_what_is_copied_is_in_the_checkout_and_reaches_the_builder(source: str) -> None:
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()

    assert (ROOT / source).exists()
    assert f"!{source}" in allowed


def test_nothing_else_reaches_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()

    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == set(copied_from_the_checkout())


def test_the_proxy_runs_as_a_user_with_a_fixed_number_who_owns_the_data() -> None:
    _, runtime = stages()

    (accounts,) = in_stage(runtime, "RUN")

    assert in_stage(runtime, "USER") == ["10001:10001"]
    assert "useradd --uid 10001" in accounts
    assert "--owner=10001 --group=10001 --mode=0700 /app/data" in accounts
    assert in_stage(runtime, "WORKDIR") == ["/app"]
    assert in_stage(runtime, "VOLUME") == ["/app/data"]


def test_the_image_starts_the_installed_command_without_a_shell() -> None:
    _, runtime = stages()
    scripts = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    assert json.loads(in_stage(runtime, "ENTRYPOINT")[0]) == ["chat-proxy"]
    assert json.loads(in_stage(runtime, "CMD")[0]) == ["serve"]
    assert in_stage(runtime, "STOPSIGNAL") == ["SIGTERM"]
    assert "\nchat-proxy = " in scripts


def test_the_port_is_the_settings_default() -> None:
    _, runtime = stages()

    assert in_stage(runtime, "EXPOSE") == [str(setting_names()["CHAT_PROXY_SERVER_PORT"].default)]


def test_store_and_archive_are_on_the_volume() -> None:
    _, runtime = stages()
    variables = dict(word.split("=", 1) for word in " ".join(in_stage(runtime, "ENV")).split())

    (volume,) = in_stage(runtime, "VOLUME")

    assert variables["CHAT_PROXY_STORE_URL"] == f"sqlite:///{volume}/chat-proxy.db"
    assert variables["CHAT_PROXY_ARCHIVE_DIR"] == volume


def test_every_variable_in_the_dockerfile_exists() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")

    named = set(re.findall(r"CHAT_PROXY_\w+", text))

    assert "CHAT_PROXY_SERVER_HOST" in named
    assert named <= set(setting_names())


class Health(BaseHTTPRequestHandler):
    """Answers `/healthz` well or badly, and nothing else."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


class Illness(Health):
    status = 503


@contextmanager
def proxy_with(health: type[Health]) -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), health)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def is_healthy(port: int) -> bool:
    """Run the image's own check, as Docker would, where an HTTP proxy is set that nobody runs."""
    _, runtime = stages()
    (check,) = in_stage(runtime, "HEALTHCHECK")
    python, *arguments = json.loads(check[check.index("[") :])
    assert python == "python"
    variables = {"CHAT_PROXY_SERVER_PORT": str(port), "HTTP_PROXY": "http://127.0.0.1:9"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=variables, capture_output=True, check=False).returncode == 0


def test_the_health_check_passes_while_the_proxy_is_well() -> None:
    with proxy_with(Health) as port:
        assert is_healthy(port)


def test_the_health_check_fails_when_the_proxy_is_ill_or_gone() -> None:
    with proxy_with(Illness) as port:
        assert not is_healthy(port)
    assert not is_healthy(port)
