import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from chat_proxy.cli.launch.clients import CLIENTS, Target
from chat_proxy.config.environment import read_settings, setting_names
from chat_proxy.config.settings import Settings

CONFIGS = Path(__file__).parents[2] / "configs"
RECIPES = sorted(CONFIGS.glob("*.env"))


def variables_in(recipe: Path) -> list[str]:
    return re.findall(r"^(\w+)=", recipe.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_a_recipe_has_only_variables_that_exist(recipe: Path) -> None:
    assert variables_in(recipe)
    assert set(variables_in(recipe)) <= set(setting_names())


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_a_recipe_makes_settings(recipe: Path) -> None:
    assert isinstance(read_settings(env_file=recipe), Settings)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_a_recipe_says_why_for_each_variable(recipe: Path) -> None:
    paragraphs = recipe.read_text(encoding="utf-8").strip().split("\n\n")

    introduction, *reasons = paragraphs

    assert introduction.startswith("# ")
    assert len(reasons) == len(variables_in(recipe))
    assert all(re.fullmatch(r"(# .+\n)+CHAT_PROXY_\w+=\S+", reason) for reason in reasons)


def test_each_recipe_does_what_it_is_for() -> None:
    vision = read_settings(env_file=CONFIGS / "vision-sidecar.env")
    agents = read_settings(env_file=CONFIGS / "coding-agents.env")
    observing = read_settings(env_file=CONFIGS / "observe.env")

    assert vision.vision.truncate_history
    assert not agents.vision.truncate_history
    assert "todo_write" in agents.prune.protected_tools
    assert observing.mode == "observe"


def test_prometheus_reads_the_proxy_at_its_default_port() -> None:
    document = yaml.safe_load((CONFIGS / "prometheus.yml").read_text(encoding="utf-8"))

    (job,) = document["scrape_configs"]

    assert job["metrics_path"] == "/metrics"
    assert job["static_configs"] == [{"targets": [f"chat-proxy:{Settings().server.port}"]}]


def test_grafana_is_given_prometheus_as_its_source() -> None:
    path = CONFIGS / "grafana" / "provisioning" / "datasources" / "prometheus.yml"

    (source,) = yaml.safe_load(path.read_text(encoding="utf-8"))["datasources"]

    assert source["type"] == "prometheus"
    assert source["url"] == "http://prometheus:9090"


def test_the_readme_names_every_file_to_start_from() -> None:
    readme = (CONFIGS / "README.md").read_text(encoding="utf-8")

    names = [path.name for path in (*RECIPES, *CONFIGS.glob("*.example.json"))]

    assert names
    assert [name for name in names if name not in readme] == []


def test_the_files_of_clients_lead_to_the_proxy() -> None:
    """They say the same as `chat-proxy launch`, at the default port."""
    port = Settings().server.port
    codex = tomllib.loads((CONFIGS / "clients" / "codex.toml").read_text())
    claude = json.loads((CONFIGS / "clients" / "claude-code.json").read_text())["env"]
    target = Target(f"http://127.0.0.1:{port}", "your-model")

    provider = codex["model_providers"][codex["model_provider"]]
    assert provider["base_url"] == f"{target.root}/v1"
    assert provider["env_key"] == CLIENTS["codex"].key
    expected = CLIENTS["claude"].start(target).variables
    assert claude == {**expected, CLIENTS["claude"].key: "your-key"}
    agents = (CONFIGS / "clients" / "agents_sdk.py").read_text()
    assert f'base_url="{target.root}/v1"' in agents
