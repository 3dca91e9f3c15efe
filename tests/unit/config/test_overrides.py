"""What a model's registry entry may set for itself."""

import json
from pathlib import Path

import pytest

from chat_proxy.config.environment import overridden
from chat_proxy.config.policies import stage_policies
from chat_proxy.config.settings import Settings
from chat_proxy.errors import BadConfiguration
from chat_proxy.telemetry.logs import configure_logging
from chat_proxy.wiring import make_services
from tests.support.live import settings


def test_overrides_change_a_copy() -> None:
    common = Settings(_env_file=None, vision={"keep_system": False})

    own = overridden(
        common,
        {
            "mode": "off",
            "vision_keep_last_n_turns": 2,
            "prune_protected_tools": ["skill", "read"],
            "budget_context_window": 8192,
        },
    )

    assert own.mode == "off"
    assert (own.vision.keep_last_n_turns, own.vision.keep_system) == (2, False)
    assert own.prune.protected_tools == ("skill", "read")
    assert own.budget.context_window == 8192
    assert common.mode == "on"
    assert own.server == common.server


def test_overrides_set_only_what_they_name() -> None:
    """PRUNE_PROTECT_TOKENS and PRUNE_MINIMUM_TOKENS are taken literally only if they are set."""
    common = Settings(_env_file=None, prune={"protect_tokens": 40_000})

    own = overridden(common, {"prune_keep_results": 3, "budget_reserve_ratio": 0})

    assert own.prune.model_fields_set == {"protect_tokens", "keep_results"}
    assert own.budget.model_fields_set == {"reserve_ratio"}
    assert own.tools.model_fields_set == common.tools.model_fields_set == set()
    assert common.prune.model_fields_set == {"protect_tokens"}


def test_an_override_does_not_read_the_environment_again(monkeypatch: pytest.MonkeyPatch) -> None:
    common = Settings(_env_file=None)
    monkeypatch.setenv("CHAT_PROXY_PRUNE_PROTECT_TURNS", "9")

    own = overridden(common, {"prune_keep_results": 3})

    assert (own.prune.keep_results, own.prune.protect_turns) == (3, 2)


def test_a_model_may_have_its_own_rules() -> None:
    common = Settings(_env_file=None, tools={"rules": {"read": 3_000}, "max_bytes": 9_000})

    overrides = {"tools_rules": {"skill": "whole"}, "tools_recent_n": 4}
    own = stage_policies(overridden(common, overrides)).truncate_tool_output

    assert own.rules == (("skill", "whole"),)
    assert (own.max_bytes, own.recent_results, own.old_max_bytes) == (9_000, 4, 3_000)
    assert stage_policies(common).truncate_tool_output.rules == (("read", 3_000),)


def test_no_overrides_change_nothing() -> None:
    common = Settings(_env_file=None, upstream={"api_key": "sk-1"})

    assert overridden(common, {}) == common


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"vision_keep_last_turns": 1}, "did you mean 'vision_keep_last_n_turns'?"),
        ({"VISION_KEEP_SYSTEM": True}, "did you mean 'vision_keep_system'?"),
        ({"visoin_keep_system": True}, "did you mean 'vision_keep_system'?"),
        ({"vision": {"keep_system": True}}, "there is no such setting"),
        ({"server_port": 1}, "'server_port': cannot be set for one model"),
        ({"upstream_api_key": "sk-canary"}, "cannot be set for one model"),
        ({"auth_keys": "sk-canary"}, "cannot be set for one model"),
        ({"mode": "fast"}, "'mode': must be 'on', 'observe' or 'off'"),
        ({"budget_threshold": 7}, "'budget_threshold': must be at most 1"),
        ({"tools_max_bytes": "many"}, "'tools_max_bytes': must be a whole number"),
        ({"tools_rules": {"read": "all"}}, "'tools_rules': the rule of tool 'read' must be "),
        ({"summary_api_key": "sk-canary\n"}, "'summary_api_key': must be printable ASCII"),
        ({"prune_protected_tools": [1]}, "'prune_protected_tools': must be a valid string"),
    ],
)
def test_a_bad_override_stops_the_start_with_one_line(
    overrides: dict[str, object], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "registry.json"
    file.write_text(json.dumps([{"name": "qwen", "overrides": overrides}]))

    with pytest.raises(BadConfiguration) as caught:
        make_services(settings(registry={"file": file}), {})

    line = str(caught.value)
    assert line.startswith(f"{file}: model 'qwen': overrides: ")
    assert said in line
    assert "\n" not in line
    assert "canary" not in line


def test_good_overrides_pass(tmp_path: Path) -> None:
    file = tmp_path / "registry.json"
    file.write_text(json.dumps([{"name": "qwen", "overrides": {"vision_keep_last_n_turns": 1}}]))

    services = make_services(settings(registry={"file": file}), {})

    assert services.registry.find("qwen").overrides == {"vision_keep_last_n_turns": 1}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"encoding": "o200k"}, "a model's encoding is not known here"),
        ({"image_family": "gpt-4z"}, "a model's image family is not known here"),
    ],
)
def test_a_word_of_the_registry_that_is_not_known_is_told(
    entry: dict[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "models.json"
    file.write_text(json.dumps([{"name": "m", **entry}, {"name": "n", "encoding": "o200k_base"}]))
    configure_logging("info", "json")

    make_services(settings(registry={"file": file}), {})

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["message"], line["model"]) for line in lines] == [(said, "m")]
