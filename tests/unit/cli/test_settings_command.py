"""`chat-proxy settings`: all settings from the code, for those who have no README at hand."""

import json
import re
from pathlib import Path

import pytest

from chat_proxy.cli import main as cli
from chat_proxy.config.documented import documented_sections
from chat_proxy.config.environment import read_settings, setting_names
from chat_proxy.config.settings import Settings


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as left:
        cli.main(["settings", *arguments])
    assert left.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("form", ["--env", "--json", None])
def test_every_setting_is_listed_once(form: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, *([form] if form else []))

    names = re.findall(r"^\W*(?:name\W+)?(CHAT_PROXY_\w+)[=\"]", text, re.MULTILINE)

    assert names == list(setting_names())


def test_a_setting_has_its_default_and_its_meaning_below(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = told(capsys).splitlines()

    at = lines.index("  CHAT_PROXY_SERVER_PORT=8100")

    assert lines[at + 1] == "      Port to listen on; 0 selects a free port."
    assert "server: Where the proxy listens and how it shuts down." in lines[:at]


@pytest.mark.parametrize("form", ["--env", None])
def test_what_a_setting_means_fits_a_terminal(
    form: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = told(capsys, *([form] if form else [])).splitlines()

    words = [line for line in lines if not re.match(r"\W*CHAT_PROXY_\w+=", line)]
    assert max(map(len, words)) <= 80


def test_json_has_name_default_meaning_and_section(capsys: pytest.CaptureFixture[str]) -> None:
    settings = json.loads(told(capsys, "--json"))

    assert {
        "name": "CHAT_PROXY_SERVER_PORT",
        "default": "8100",
        "meaning": "Port to listen on; 0 selects a free port.",
        "section": "server",
    } in settings
    assert all(setting["meaning"] for setting in settings)


def test_the_file_as_it_is_sets_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / ".env"
    file.write_text(told(capsys, "--env"))

    assert read_settings(file) == read_settings(None)
    assert read_settings(file).model_fields_set == set()


def test_the_file_with_every_setting_uncommented_has_the_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / ".env"
    file.write_text(re.sub(r"^#(?=CHAT_PROXY)", "", told(capsys, "--env"), flags=re.MULTILINE))

    settings = read_settings(file)

    assert settings == Settings(_env_file=None)
    assert settings.log.model_fields_set == {"level", "format", "client_address"}


def test_settings_without_a_section_come_first() -> None:
    first, second, *_ = documented_sections()

    assert (first.name, second.name) == ("", "server")
    assert [setting.name for setting in first.settings] == [
        "CHAT_PROXY_MODE",
        "CHAT_PROXY_CONTRACTS",
    ]
