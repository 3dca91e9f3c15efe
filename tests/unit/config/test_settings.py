"""Every setting has its name, its default and its documentation."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from chat_proxy.cli.check_config import effective
from chat_proxy.config.environment import read_settings, read_variables, setting_names
from chat_proxy.config.settings import PREFIX, Settings

# The fixed names of the design, with their defaults as they would be written.
FIXED = {
    "MODE": "on",
    "SERVER_HOST": "127.0.0.1",
    "SERVER_PORT": "8100",
    "SERVER_WORKERS": "1",
    "UPSTREAM_BASE_URL": "http://127.0.0.1:8000/v1",
    "UPSTREAM_API_KEY": "",
    "AUTH_KEYS": "",
    "AUTH_ADMIN_KEY": "",
    "AUTH_ALLOW_ANONYMOUS": "false",
    "REGISTRY_FILE": "configs/model_registry.json",
    "VISION_TRUNCATE_HISTORY": "true",
    "VISION_KEEP_SYSTEM": "true",
    "VISION_KEEP_LAST_N_TURNS": "0",
    "MEDIA_IMAGE_TOKEN_ESTIMATE": "1600",
    "TOOLS_MAX_BYTES": "50000",
    "TOOLS_OLD_MAX_BYTES": "3000",
    "TOOLS_RECENT_N": "0",
    "TOOLS_EXEMPT": "",
    "TOOLS_RULES": "{}",
    "PRUNE_ENABLED": "true",
    "PRUNE_PROTECT_TOKENS": "40000",
    "PRUNE_MINIMUM_TOKENS": "20000",
    "PRUNE_PROTECT_TURNS": "2",
    "PRUNE_PROTECTED_TOOLS": "skill",
    "PRUNE_IDLE_MINUTES": "60",
    "BUDGET_CONTEXT_WINDOW": "",
    "BUDGET_THRESHOLD": "0.8",
    "BUDGET_PREPARE": "0.65",
    "BUDGET_RESERVE_TOKENS": "",
    "BUDGET_RESERVE_RATIO": "",
    "BUDGET_TAIL_TURNS": "",
    "BUDGET_TAIL_TOKENS": "",
    "BUDGET_MIN_ANSWER_TOKENS": "256",
    "SUMMARY_ENABLED": "true",
    "SUMMARY_MODEL": "",
    "SUMMARY_BASE_URL": "",
    "SUMMARY_API_KEY": "",
    "SUMMARY_TIMEOUT_SECONDS": "30",
    "SUMMARY_WAIT": "overflow",
    "STORE_URL": "sqlite:///data/chat-proxy.db",
    "STORE_SECRET": "",
    "ARCHIVE_DIR": "data",
    "ARCHIVE_RETENTION_DAYS": "5",
    "ARCHIVE_MENTION_PATHS": "false",
    "DASHBOARD_SHOW_TEXT": "false",
}
SECTIONS = [
    "server",
    "upstream",
    "auth",
    "registry",
    "vision",
    "media",
    "tools",
    "prune",
    "budget",
    "history",
    "summary",
    "recall",
    "replay",
    "tokens",
    "store",
    "archive",
    "commands",
    "limits",
    "log",
    "metrics",
    "dashboard",
]


@pytest.mark.parametrize(("name", "default"), FIXED.items())
def test_a_fixed_name_has_its_default(name: str, default: str) -> None:
    lines = list(effective(Settings(_env_file=None), PREFIX))

    assert f"CHAT_PROXY_{name}={default}" in lines


def test_the_sections_are_those_of_the_design() -> None:
    assert list(Settings.model_fields) == ["mode", "contracts", *SECTIONS]


def test_every_setting_says_what_it_means() -> None:
    undocumented = [name for name, field in setting_names().items() if not field.description]

    assert undocumented == []


def test_a_variable_changes_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_PROXY_VISION_KEEP_LAST_N_TURNS", "3")
    monkeypatch.setenv("chat_proxy_log_level", "debug")

    settings = read_settings(None)

    assert settings.vision.keep_last_n_turns == 3
    assert settings.log.level == "debug"


def test_words_are_read_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, word in (("LOG_LEVEL", "INFO"), ("LOG_FORMAT", "JSON"), ("MODE", " Off ")):
        monkeypatch.setenv(f"CHAT_PROXY_{name}", word)

    settings = read_settings(None)

    assert (settings.log.level, settings.log.format, settings.mode) == ("info", "json", "off")


@pytest.mark.parametrize("name", ["MODE", "SERVER_PORT", "AUTH_KEYS", "UPSTREAM_API_KEY"])
def test_an_empty_value_is_an_unset_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"CHAT_PROXY_{name}", "")

    assert not any("# set" in line for line in effective(read_settings(None), PREFIX))


@pytest.mark.parametrize(
    ("written", "words"),
    [("a", ("a",)), (" a , b,,", ("a", "b")), ("skill,read_file", ("skill", "read_file"))],
)
def test_a_list_is_written_with_commas(
    written: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_PROXY_PRUNE_PROTECTED_TOOLS", written)
    monkeypatch.setenv("CHAT_PROXY_AUTH_KEYS", written)

    settings = read_settings(None)

    assert settings.prune.protected_tools == words
    assert tuple(key.get_secret_value() for key in settings.auth.keys) == words


def test_rules_are_written_as_json_and_printed_so(monkeypatch: pytest.MonkeyPatch) -> None:
    written = '{"read_file": 3000, "skill": "whole", "mcp__*": "recent"}'
    monkeypatch.setenv("CHAT_PROXY_TOOLS_RULES", written)

    settings = read_settings(None)

    assert settings.tools.rules == {"read_file": 3000, "skill": "whole", "mcp__*": "recent"}
    assert list(settings.tools.rules) == ["read_file", "skill", "mcp__*"]
    assert f"CHAT_PROXY_TOOLS_RULES={written}  # set" in effective(settings, PREFIX)


@pytest.mark.parametrize("name", ["reserve_tokens", "reserve_ratio", "tail_turns", "tail_tokens"])
def test_a_zero_is_not_an_unset_value(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"CHAT_PROXY_BUDGET_{name.upper()}", "0")

    assert getattr(read_settings(None).budget, name) == 0


def test_a_default_that_is_written_down_counts_as_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """PRUNE_PROTECT_TOKENS is taken literally only if it is set."""
    monkeypatch.setenv("CHAT_PROXY_PRUNE_PROTECT_TOKENS", "40000")

    assert read_settings(None).prune.model_fields_set == {"protect_tokens"}


def test_settings_never_change() -> None:
    settings = Settings(_env_file=None)

    with pytest.raises(ValidationError):
        settings.mode = "off"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        settings.server.port = 1  # type: ignore[misc]


def test_a_key_does_not_show_when_settings_are_printed() -> None:
    settings = Settings(_env_file=None, upstream={"api_key": "sk-canary"}, auth={"keys": "canary"})

    assert "canary" not in f"{settings!r} {settings}"


@pytest.mark.parametrize(
    ("given", "base_url"),
    [
        ("http://vllm:8000", "http://vllm:8000/v1"),
        ("http://vllm:8000/", "http://vllm:8000/v1"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
        ("https://api.openai.com:443/v1", "https://api.openai.com/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://gateway/openai/v1", "http://gateway/openai/v1"),
    ],
)
def test_a_base_url_is_completed(
    given: str, base_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_PROXY_UPSTREAM_BASE_URL", given)

    assert read_settings(None).upstream.base_url == base_url


def test_the_file_is_read_and_the_environment_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / ".env"
    file.write_text("CHAT_PROXY_SERVER_PORT=1\nCHAT_PROXY_MODE=off\nMODEL_KEY=from-file\nOTHER\n")
    monkeypatch.setenv("CHAT_PROXY_SERVER_PORT", "2")

    settings, variables = read_settings(file), read_variables(file)

    assert (settings.server.port, settings.mode) == (2, "off")
    assert variables["MODEL_KEY"] == "from-file"
    assert variables["CHAT_PROXY_SERVER_PORT"] == "2"
    assert "OTHER" not in variables


def test_no_file_is_no_settings(tmp_path: Path) -> None:
    assert read_settings(tmp_path / ".env") == read_settings(None)
