import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from chat_proxy.config.environment import setting_names
from chat_proxy.config.settings import Settings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")


def with_defaults(text: str) -> str:
    """Return the file as Compose sees it where no variable is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


COMPOSE: dict[str, Any] = yaml.safe_load(with_defaults(TEXT))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PROXY = SERVICES["chat-proxy"]


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
    assert vllm["command"] == ["Qwen/Qwen2.5-VL-3B-Instruct-AWQ", "--max-model-len", "8192"]
    assert device == {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}


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

    assert len(images) == 4
    assert all(re.fullmatch(r"[\w./-]+:v?\d[\w.-]*", image) for image in images)
