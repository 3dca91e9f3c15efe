"""Flags of the command line: each sets one setting, over the environment and `.env`."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from chat_proxy.cli.main import parser
from chat_proxy.cli.terminal.flags import SETTING_FLAGS, SettingFlag, sources_of
from chat_proxy.config.environment import read_settings, setting_names
from chat_proxy.config.settings import Settings
from chat_proxy.errors import BadConfiguration
from tests.support.command import ask, environment, run_command, running_command
from tests.support.fake_model import fake_model, polite

HELP_CPU_SECONDS = 0.05

VALUES = {
    "--upstream": ("http://gpu:8000/v1", "upstream", "base_url"),
    "--api-key": ("sk-1", "upstream", "api_key"),
    "--host": ("0.0.0.0", "server", "host"),
    "--port": ("9100", "server", "port"),
    "--workers": ("3", "server", "workers"),
    "--window": ("4096", "budget", "context_window"),
    "--store": ("memory:", "store", "url"),
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def given(*arguments: str) -> Settings:
    return read_settings(*sources_of(parser().parse_args(["serve", *arguments])))


def test_every_flag_is_tried_here() -> None:
    assert {flag.name for flag in SETTING_FLAGS} == {*VALUES, "--mode"}


@pytest.mark.parametrize("flag", SETTING_FLAGS, ids=lambda flag: flag.name)
def test_a_flag_has_a_variable_that_exists_and_both_are_in_the_help(
    flag: SettingFlag, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["serve", "--help"])
    told = capsys.readouterr().out

    assert flag.variable in setting_names()
    assert f"{flag.name} {flag.metavar}" in told
    assert f"({flag.variable})" in told


@pytest.mark.parametrize("name", VALUES)
def test_a_flag_sets_its_setting(name: str) -> None:
    value, section, field = VALUES[name]

    found = getattr(getattr(given(name, value), section), field)

    plain = found.get_secret_value() if name == "--api-key" else found
    assert str(plain) == value


def test_a_flag_beats_the_environment_which_beats_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["MODE=off", "SERVER_PORT=1", "SERVER_HOST=127.0.0.3", "SERVER_WORKERS=2"]
    (tmp_path / ".env").write_text("".join(f"CHAT_PROXY_{line}\n" for line in lines))
    monkeypatch.setenv("CHAT_PROXY_SERVER_PORT", "2")
    monkeypatch.setenv("CHAT_PROXY_SERVER_HOST", "127.0.0.2")

    settings = given("--mode", "Observe", "--port", "3")

    assert settings.mode == "observe"
    assert settings.server.port == 3
    assert settings.server.host == "127.0.0.2"
    assert settings.server.workers == 2


def test_another_file_is_read_instead_of_dot_env(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("CHAT_PROXY_SERVER_PORT=1\nCHAT_PROXY_MODE=off\n")
    (tmp_path / "other.env").write_text("CHAT_PROXY_SERVER_PORT=2\n")

    settings = given("--env-file", "other.env")

    assert (settings.server.port, settings.mode) == (2, "on")


@pytest.mark.parametrize("command", ["serve", "check-config", "purge", "explain", "compact"])
def test_a_named_file_must_be_there(command: str) -> None:
    file = ["x.json"] if command in ("explain", "compact") else []
    options = parser().parse_args([command, "--env-file", "missing.env", *file])

    with pytest.raises(BadConfiguration, match=r"^--env-file missing\.env: there is no such file$"):
        sources_of(options)


def test_a_wrong_value_is_refused_by_the_name_of_its_variable() -> None:
    with pytest.raises(
        BadConfiguration, match=r"^CHAT_PROXY_SERVER_PORT='high': must be a whole number"
    ):
        given("--port", "high")


def test_a_wrong_key_is_not_shown() -> None:
    with pytest.raises(BadConfiguration, match=r"CHAT_PROXY_UPSTREAM_API_KEY='\*\*\*'"):
        given("--api-key", "sk-cänary")


def test_a_key_is_read_from_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("sk-typed\nmore\n"))

    key = given("--api-key", "-").upstream.api_key

    assert key is not None
    assert key.get_secret_value() == "sk-typed"


def test_no_key_on_the_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))

    with pytest.raises(BadConfiguration, match=r"^--api-key -: there is no key"):
        given("--api-key", "-")


@pytest.mark.anyio
async def test_serve_and_check_config_take_the_flags() -> None:
    async with fake_model(polite) as model:
        flags = ("--upstream", model.url, "--store", "memory:")
        elsewhere = "http://127.0.0.1:1/v1"
        checked = await run_command("check-config", *flags, UPSTREAM_BASE_URL=elsewhere)
        async with running_command(
            "serve", *flags, "--host", "127.0.0.2", UPSTREAM_BASE_URL=elsewhere
        ) as command:
            url = await command.url()
            answer = await ask(f"{url}/v1/models")

    assert checked.code == 0
    assert f"CHAT_PROXY_UPSTREAM_BASE_URL={model.url}  # set" in checked.out
    assert url.startswith("http://127.0.0.2:")
    assert answer.json()["data"]


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"]])
def test_help_costs_no_more_than_a_blink(arguments: list[str]) -> None:
    """The best of five, in CPU time, so that the load of the machine does not count."""
    code = "import sys, time\nfrom chat_proxy.cli.main import main\ntry:\n    main(sys.argv[1:])\n"
    code += "finally:\n    sys.stderr.write(str(time.process_time()))"
    command = [sys.executable, "-c", code, *arguments]

    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True, env=environment({}))
        for _ in range(5)
    ]

    assert min(float(run.stderr) for run in runs) <= HELP_CPU_SECONDS
