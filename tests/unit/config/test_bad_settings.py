"""A configuration that cannot be used says so in one line for each mistake."""

from pathlib import Path

import pytest

from chat_proxy.config.environment import read_settings, setting_names
from chat_proxy.errors import BadConfiguration

SECRET = "sk-canary-0123456789"


def refusal(monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    """What is said about these variables, which must not pass."""
    for name, value in variables.items():
        monkeypatch.setenv(f"CHAT_PROXY_{name}", value)
    with pytest.raises(BadConfiguration) as caught:
        read_settings(None)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SERVER_PORT", "99999", "must be at most 65535"),
        ("SERVER_PORT", "http", "must be a whole number, such as 4096"),
        ("SERVER_WORKERS", "0", "must be at least 1"),
        ("SERVER_WORKERS", "100000", "must be at most 256"),
        ("MODE", "fast", "'on', 'observe' or 'off'"),
        ("LOG_LEVEL", "loud", "'debug', 'info', 'warning' or 'error'"),
        ("METRICS_ENABLED", "perhaps", "must be true or false"),
        ("BUDGET_THRESHOLD", "1.5", "must be at most 1"),
        ("UPSTREAM_TOTAL_TIMEOUT_SECONDS", "inf", "must be a finite number"),
        ("SERVER_PING_SECONDS", "nan", "must be a finite number"),
        ("UPSTREAM_BASE_URL", "vllm:8000", "must be a URL such as http://127.0.0.1:8000/v1"),
        ("UPSTREAM_BASE_URL", "vllm", "must be a URL such as"),
        ("UPSTREAM_BASE_URL", "http://vllm/v1?x=1", "no user name, password, query or fragment"),
        ("PRUNE_IDLE_MINUTES", "two\nlines", "must be a number, such as 2.5"),
        ("BUDGET_RESERVE_RATIO", "1", "less than 1"),
        ("BUDGET_RESERVE_RATIO", "-0.1", "must be at least 0"),
        ("BUDGET_RESERVE_RATIO", "nan", "less than 1"),
        ("BUDGET_TAIL_TURNS", "-1", "must be at least 0"),
        ("BUDGET_TAIL_TOKENS", "few", "must be a whole number"),
        ("BUDGET_MIN_ANSWER_TOKENS", "0", "must be at least 1"),
        ("TOOLS_RECENT_N", "-1", "must be at least 0"),
        ("TOOLS_RULES", "read=whole", "is not valid JSON"),
        ("TOOLS_RULES", '["read"]', "valid dictionary"),
        ("TOOLS_RULES", '{"": "whole"}', "a rule has no tool"),
    ],
)
def test_a_bad_value_is_named_with_its_variable(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = refusal(monkeypatch, **{name: value})

    assert line.startswith(f"CHAT_PROXY_{name}={value!r}: ")
    assert said in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("CHAT_PROXY_SERVER_HOST", "must not be empty"),  # it would be all addresses
        ("CHAT_PROXY_UPSTREAM_BASE_URL", "must be a URL such as http://127.0.0.1:8000/v1"),
    ],
)
def test_an_empty_flag_is_refused(name: str, reason: str) -> None:
    with pytest.raises(BadConfiguration) as caught:
        read_settings(None, {name: ""})

    assert str(caught.value) == f"{name}='': {reason}"


@pytest.mark.parametrize(
    "name", ["CHATPROXY_MODE", "CHAT-PROXY_MODE", "chatproxy_upstream_base_url", "Chat_ProxyMode"]
)
def test_a_mistake_in_the_prefix_of_a_setting_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "off")
    with pytest.raises(BadConfiguration, match="there is no such setting; did you mean") as caught:
        read_settings(None)

    nearest = "UPSTREAM_BASE_URL" if "upstream" in name else "MODE"
    assert str(caught.value).endswith(f"did you mean CHAT_PROXY_{nearest}?")


def test_the_names_of_other_programs_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHATPROXY_HOME", "/opt")
    monkeypatch.setenv("CHATPROXY_SERVER_PORT", "tcp://10.0.0.1:8100")
    monkeypatch.setenv("MODE", "fast")

    assert read_settings(None).mode == "on"


@pytest.mark.parametrize("rule", ['"all"', "0", "-5", "1.5", "true", "null", '["whole"]', '"3000"'])
def test_a_rule_that_is_not_known_is_named_with_its_tool(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = f'{{"read_file": 3000, "mcp__*": {rule}}}'

    line = refusal(monkeypatch, TOOLS_RULES=value)

    allowed = '"whole", "recent" or a number of bytes from 1'
    said = f"the rule of tool 'mcp__*' must be {allowed}"
    assert line == f"CHAT_PROXY_TOOLS_RULES={value!r}: {said}"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("SERVER_PROT", "SERVER_PORT"),
        ("VISON_KEEP_SYSTEM", "VISION_KEEP_SYSTEM"),
        ("VISION_KEEP_LAST_TURNS", "VISION_KEEP_LAST_N_TURNS"),
        ("SERVER_SERVER_PORT", "SERVER_PORT"),
        ("SERVER", "SERVER_PORT"),
        ("MOD", "MODE"),
        ("UPSTREAM_URL", "UPSTREAM_BASE_URL"),
    ],
)
def test_an_unknown_name_is_told_the_nearest_one(
    name: str, nearest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = refusal(monkeypatch, **{name: "7"})

    assert line == (
        f"CHAT_PROXY_{name}='7': there is no such setting; did you mean CHAT_PROXY_{nearest}?"
    )


def test_a_whole_section_in_one_variable_is_refused_whatever_is_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for value in ("x", "{}", '{"port": 1}'):
        line = refusal(monkeypatch, SERVER=value)
        assert line.startswith(f"CHAT_PROXY_SERVER={value!r}: there is no such setting")


def test_every_mistake_gets_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = refusal(monkeypatch, SERVER_PORT="x", MODE="y", SERVR_PORT="1", LOG_FORMT="json")

    assert [line.partition("=")[0] for line in lines.splitlines()] == [
        "CHAT_PROXY_LOG_FORMT",
        "CHAT_PROXY_SERVR_PORT",
        "CHAT_PROXY_MODE",
        "CHAT_PROXY_SERVER_PORT",
    ]


@pytest.mark.parametrize(
    ("value", "said"),
    [("{token: canary}", "is not valid JSON"), ('["canary"]', "valid dictionary")],
)
def test_fields_that_may_hold_a_key_are_not_printed(
    value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F28."""
    line = refusal(monkeypatch, SUMMARY_EXTRA_BODY=value)

    assert line.startswith("CHAT_PROXY_SUMMARY_EXTRA_BODY='***': ")
    assert said in line
    assert "canary" not in line


SECRETS = [name for name, field in setting_names().items() if "SecretStr" in repr(field.annotation)]


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("value", [f"{SECRET}\nx", f"{SECRET}ü", f"{SECRET}\ax"])
def test_a_bad_key_is_not_printed(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = refusal(monkeypatch, **{name.removeprefix("CHAT_PROXY_"): value})

    assert line.startswith(f"{name}='***': must be printable ASCII")
    assert "canary" not in line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("UPSTREAM_APIKEY", "canary"),
        ("UPSTREM_API_KEY", "canary"),
        ("AUTH_KEY", "canary"),
        ("OPENAI_TOKEN", "canary"),
        ("DB_PASSWORD", "canary"),
        ("FOO", SECRET),
        ("FOO", "Bearer canary"),
        ("STORE_URLL", "redis://:can@ary@host/0"),
        ("STORE_URLL", "redis://user:canary/x@host"),
        ("STORE_URLL", "redis://host?password=canary&x=1"),
        ("UPSTREAM_BASE_URL", "http://user:canary@host/v1"),
        ("UPSTREAM_BASE_URL", "http://host/v1?api_key=canary"),
        ("SUMMARY_BASE_URL", "ftp://user:canary@host/v1"),
    ],
)
def test_a_secret_in_a_wrong_place_is_masked(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = refusal(monkeypatch, **{name: value})

    assert line.startswith(f"CHAT_PROXY_{name}=")
    assert "***" in line
    assert "canary" not in line
    assert "ary@" not in line


@pytest.mark.parametrize("value", [",", " ", " , ,"])
def test_keys_that_are_none_do_not_open_the_door(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "contains no key" in refusal(monkeypatch, AUTH_KEYS=value)


def test_what_kubernetes_sets_beside_a_service_of_this_name_is_let_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {
        "SERVICE_HOST": "10.0.0.1",
        "SERVICE_PORT": "8100",
        "SERVICE_PORT_HTTP": "8100",
        "PORT": "tcp://10.0.0.1:8100",
        "PORT_8100_TCP": "tcp://10.0.0.1:8100",
        "PORT_8100_TCP_PROTO": "tcp",
        "PORT_8100_TCP_PORT": "8100",
        "PORT_8100_TCP_ADDR": "10.0.0.1",
    }.items():
        monkeypatch.setenv(f"CHAT_PROXY_{name}", value)

    assert read_settings(None).server.port == 8100


def test_a_mistake_in_the_file_is_named_too(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("CHAT_PROXY_SERVER_PORT=x\nCHAT_PROXY_LOG_LEVL=info\n")

    with pytest.raises(BadConfiguration) as caught:
        read_settings(file)

    first, second = str(caught.value).splitlines()
    assert first.startswith("CHAT_PROXY_LOG_LEVL='info': there is no such setting")
    assert second.startswith("CHAT_PROXY_SERVER_PORT='x': ")


def test_a_file_that_is_not_text_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_bytes(b"CHAT_PROXY_MODE=\xff\n")

    with pytest.raises(BadConfiguration, match=r"\.env: is not UTF-8$"):
        read_settings(file)


def test_a_file_that_cannot_be_read_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> dict[str, str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("chat_proxy.config.environment.dotenv_values", refuse)

    with pytest.raises(BadConfiguration, match=r"cannot be read: Permission denied$"):
        read_settings(tmp_path / ".env")


def test_a_line_that_is_no_setting_is_named_by_its_number_and_not_quoted(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text(f"OTHER\nanything: goes\nCHAT_PROXY_UPSTREAM_API_KEY: {SECRET}\n")

    with pytest.raises(BadConfiguration) as caught:
        read_settings(file)

    assert str(caught.value) == f"{file}: line 3: is not NAME=value"
