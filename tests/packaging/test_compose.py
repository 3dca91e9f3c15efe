import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from chat_proxy import __version__
from chat_proxy.config.environment import setting_names
from chat_proxy.config.settings import Settings
from tests.packaging.compose_file import TEXT, with_defaults

ROOT = Path(__file__).parents[2]


COMPOSE: dict[str, Any] = yaml.safe_load(with_defaults(TEXT))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PROXY = SERVICES["chat-proxy"]


def started_with(**variables: str) -> list[str]:
    """Return the arguments of vLLM, split as Compose splits a text."""
    services = yaml.safe_load(with_defaults(TEXT, variables))["services"]
    return shlex.split(services["vllm"]["command"])


def mounts() -> list[tuple[str, str]]:
    every = (mount for service in SERVICES.values() for mount in service.get("volumes", []))
    return [tuple(mount.split(":")[:2]) for mount in every]


def test_every_variable_has_a_default() -> None:
    assert "$" not in with_defaults(TEXT)


def test_the_proxy_and_vllm_start_without_a_profile() -> None:
    assert {name for name, service in SERVICES.items() if "profiles" not in service} == {
        "chat-proxy",
        "vllm",
    }


@pytest.mark.parametrize(
    ("profile", "services"), [("redis", {"redis"}), ("monitoring", {"prometheus", "grafana"})]
)
def test_a_profile_adds_its_services(profile: str, services: set[str]) -> None:
    added = {name for name, service in SERVICES.items() if profile in service.get("profiles", [])}

    assert added == services


def test_the_proxy_waits_until_vllm_has_loaded_its_model() -> None:
    assert PROXY["depends_on"]["vllm"] == {"condition": "service_healthy"}
    assert "http://127.0.0.1:8000/health" in SERVICES["vllm"]["healthcheck"]["test"][-1]


def test_the_proxy_starts_without_redis_and_after_it_where_there_is_one() -> None:
    assert PROXY["depends_on"]["redis"] == {"condition": "service_healthy", "required": False}
    assert "healthcheck" in SERVICES["redis"]


def test_every_variable_of_the_proxy_exists() -> None:
    named = set(re.findall(r"CHAT_PROXY_\w+", TEXT))

    assert set(PROXY["environment"]) <= named <= set(setting_names())


def test_the_environment_makes_settings() -> None:
    environment = PROXY["environment"]
    settings = Settings.model_validate(
        {
            "server": {"port": environment["CHAT_PROXY_SERVER_PORT"]},
            "upstream": {"base_url": environment["CHAT_PROXY_UPSTREAM_BASE_URL"]},
        }
    )

    assert settings.upstream.base_url == "http://vllm:8000/v1"
    assert settings.server.port == 8100
    assert environment["CHAT_PROXY_STORE_URL"] == Settings().store.url


def test_a_recipe_is_used_and_ones_own_file_may_be_missing() -> None:
    recipe, own = PROXY["env_file"]

    assert (ROOT / recipe["path"]).is_file()
    assert own == {"path": ".env", "required": False}


def test_no_recipe_sets_what_the_compose_file_would_override() -> None:
    recipes = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("configs/*.env"))

    assert [name for name in PROXY["environment"] if f"\n{name}=" in recipes] == []


def test_only_this_machine_reaches_the_proxy_and_nobody_else_reaches_vllm() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert PROXY["ports"] == ["127.0.0.1:8100:8100"]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert "ports" not in SERVICES["vllm"]
    assert "ports" not in SERVICES["redis"]


def test_running_answers_may_end_before_the_proxy_is_killed() -> None:
    server = Settings().server

    assert PROXY["stop_grace_period"] == "130s"
    assert server.drain_seconds + server.drain_grace_seconds < 130


def test_vllm_serves_a_model_that_fits_a_small_gpu() -> None:
    vllm = SERVICES["vllm"]
    (device,) = vllm["deploy"]["resources"]["reservations"]["devices"]

    assert vllm["image"].startswith("vllm/vllm-openai:")
    assert started_with()[0] == "Qwen/Qwen2.5-VL-3B-Instruct-AWQ"
    assert device == {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}


def test_agents_prompts_fit_and_their_tools_can_be_called() -> None:
    arguments = started_with()
    options = dict(pairwise(arguments))

    assert int(options["--max-model-len"]) >= 32_768
    assert "--enable-auto-tool-choice" in arguments
    assert options["--tool-call-parser"] == "hermes"
    assert "" not in arguments


def test_variables_change_how_vllm_is_started() -> None:
    arguments = started_with(
        MODEL="m", MAX_MODEL_LEN="65536", TOOL_PARSER="mistral", VLLM_EXTRA_ARGS="--seed 1 --x"
    )

    assert arguments == [
        *("m", "--max-model-len", "65536", "--enable-auto-tool-choice"),
        *("--tool-call-parser", "mistral", "--seed", "1", "--x"),
    ]


def test_models_and_what_was_compiled_outlive_a_container() -> None:
    kept = {place for _, place in mounts()}

    assert {"/root/.cache/huggingface", "/root/.cache/vllm"} <= kept


def test_the_image_is_built_here_unless_it_is_to_be_pulled() -> None:
    own = {"PROXY_IMAGE": "registry.example/p", "PROXY_TAG": "9", "PROXY_PULL": "always"}
    pulled = yaml.safe_load(with_defaults(TEXT, own))["services"]["chat-proxy"]

    assert (PROXY["image"], PROXY["pull_policy"]) == (f"chat-proxy:{__version__}", "build")
    assert (pulled["image"], pulled["pull_policy"]) == ("registry.example/p:9", "always")
    assert PROXY["build"] == "."


def test_no_variable_of_the_file_alone_looks_like_a_setting() -> None:
    """They may stand in .env, which the proxy reads too; it refuses unknown settings."""
    named = set(re.findall(r"\$\{(\w+)", TEXT))

    assert {name for name in named if name.startswith("CHAT_PROXY_")} <= set(setting_names())


def test_every_service_has_a_health_check() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")

    without = {name for name, service in SERVICES.items() if "healthcheck" not in service}

    assert without == {"chat-proxy"}
    assert "\nHEALTHCHECK " in dockerfile


def test_what_is_mounted_is_in_the_checkout_or_a_declared_volume() -> None:
    sources = {source for source, _ in mounts()}
    volumes = {source for source in sources if not source.startswith("./")}

    assert [source for source in sources - volumes if not (ROOT / source).exists()] == []
    assert volumes == set(COMPOSE["volumes"])


def test_the_data_are_kept_where_the_image_has_them() -> None:
    assert ("data", "/app/data") in mounts()
    assert "\nVOLUME /app/data\n" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_every_image_has_a_fixed_version() -> None:
    images = [service["image"] for service in SERVICES.values() if "image" in service]

    assert len(images) == 5
    assert all(re.fullmatch(r"[\w./-]+:v?\d[\w.-]*", image) for image in images)
