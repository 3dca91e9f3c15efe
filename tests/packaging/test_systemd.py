"""The systemd unit: its variables are settings, and it lets running answers end."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from chat_proxy.cli.main import EXIT_BAD_CONFIGURATION
from chat_proxy.config.environment import read_settings, setting_names
from chat_proxy.config.settings import Settings

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "configs" / "systemd" / "chat-proxy.service"
LAST_WORDS_SECONDS = 5


def entries() -> list[tuple[str, str]]:
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    return [(name, value) for name, _, value in (line.partition("=") for line in lines) if value]


def values(name: str) -> list[str]:
    return [value for each, value in entries() if each == name]


def variables() -> dict[str, str]:
    return dict(value.split("=", 1) for value in values("Environment"))


def test_every_variable_is_a_setting() -> None:
    assert variables()
    assert set(variables()) <= set(setting_names())


def test_data_lie_in_the_folder_that_systemd_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables().items():
        monkeypatch.setenv(name, value)
    (state,) = values("StateDirectory")

    settings = read_settings(None)

    assert settings.archive.dir == Path("/var/lib") / state
    assert settings.store.url == f"sqlite:////var/lib/{state}/chat-proxy.db"
    assert values("StateDirectoryMode") == ["0700"]


def test_running_answers_may_end_before_it_is_killed() -> None:
    server = Settings(_env_file=None).server
    (seconds,) = map(int, values("TimeoutStopSec"))

    assert seconds > server.drain_grace_seconds + server.drain_seconds + LAST_WORDS_SECONDS
    # SIGTERM goes to the first process, which stops its workers by itself.
    assert values("KillMode") == ["mixed"]


def test_a_bad_configuration_is_not_tried_again() -> None:
    assert values("RestartPreventExitStatus") == [str(EXIT_BAD_CONFIGURATION)]


def test_it_is_no_root_and_may_write_to_its_folder_only() -> None:
    expected = {"DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict"}

    assert {name: values(name) for name in expected} == {
        name: [value] for name, value in expected.items()
    }


def test_the_guide_names_it() -> None:
    deploy = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    configs = (ROOT / "configs" / "README.md").read_text(encoding="utf-8")

    assert "configs/systemd/chat-proxy.service" in deploy
    assert "systemd/chat-proxy.service" in configs


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_every_line(tmp_path: Path) -> None:
    unit = tmp_path / "chat-proxy.service"
    text = UNIT.read_text(encoding="utf-8")
    unit.write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", text), encoding="utf-8")

    said = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        check=False,
        capture_output=True,
        text=True,
    )

    assert [line for line in said.stderr.splitlines() if "chat-proxy" in line] == []
