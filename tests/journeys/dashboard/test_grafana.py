"""Grafana's dashboard and Prometheus' alerts ask only for what the proxy tells."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from chat_proxy.telemetry.metrics import Metrics

ROOT = Path(__file__).parents[3]
CONFIGS = ROOT / "configs"
PROVISIONED = CONFIGS / "grafana" / "provisioning"
DASHBOARD: dict[str, Any] = json.loads(
    (PROVISIONED / "dashboards" / "chat-proxy.json").read_text(encoding="utf-8")
)
RULES: list[dict[str, Any]] = yaml.safe_load((CONFIGS / "alerts.yml").read_text())["groups"][0][
    "rules"
]
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
ALERTS = [rule["expr"] for rule in RULES]
KNOWN = {name: set(labels.split(", ")) for name, _, labels, _ in Metrics().documented()}
KINDS = {name: kind for name, kind, _, _ in Metrics().documented()}


@pytest.mark.parametrize("query", [*QUERIES, *ALERTS])
def test_every_query_names_metrics_and_labels_that_exist(query: str) -> None:
    for name, selection in re.findall(r"(chat_proxy_\w+)(\{[^}]*\})?", query):
        bare = name.removesuffix("_bucket")
        assert bare in KNOWN, name
        assert (bare != name) == (KINDS[bare] == "histogram")
        assert set(re.findall(r"(\w+)[=!]~?=?\"", selection)) <= KNOWN[bare]


@pytest.mark.parametrize("query", [*QUERIES, *ALERTS])
def test_every_grouping_is_by_labels_that_exist(query: str) -> None:
    for labels, name in re.findall(r"by \(([^)]*)\) \((?:rate\()?(chat_proxy_\w+)", query):
        known = KNOWN[name.removesuffix("_bucket")] | {"le"}
        assert set(labels.split(", ")) <= known


@pytest.mark.parametrize("query", [*QUERIES, *ALERTS])
def test_every_query_closes_what_it_opens(query: str) -> None:
    for opening, closing in ("()", "[]", "{}"):
        assert query.count(opening) == query.count(closing)


def test_panels_use_the_provisioned_source_and_do_not_lie_on_each_other() -> None:
    sources = yaml.safe_load((PROVISIONED / "datasources" / "prometheus.yml").read_text())
    uid = sources["datasources"][0]["uid"]
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        assert panel["datasource"]["uid"] == uid
        place = panel["gridPos"]
        columns = range(place["x"], place["x"] + place["w"])
        cells = {(x, place["y"] + y) for x in columns for y in range(place["h"])}
        assert not cells & taken
        assert max(columns) < 24
        taken |= cells


def test_compose_mounts_what_prometheus_and_grafana_read() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    rules = yaml.safe_load((CONFIGS / "prometheus.yml").read_text())["rule_files"]
    provider = yaml.safe_load((PROVISIONED / "dashboards" / "chat-proxy.yml").read_text())

    assert rules == ["alerts.yml"]
    assert "./configs/alerts.yml:/etc/prometheus/alerts.yml:ro" in services["prometheus"]["volumes"]
    mounted = "./configs/grafana/provisioning:/etc/grafana/provisioning:ro"
    assert mounted in services["grafana"]["volumes"]
    path = provider["providers"][0]["options"]["path"]
    assert path == "/etc/grafana/provisioning/dashboards"


def test_every_alert_says_how_grave_it_is_and_what_is_wrong() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith(".")


def test_every_query_of_what_a_model_served_follows_the_chosen_model_and_upstream() -> None:
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert set(variables) == {"model", "upstream"}
    for name, each in variables.items():
        assert each["query"]["query"] == f"label_values(chat_proxy_requests_total, {name})"
        assert (each["includeAll"], each["allValue"]) == (True, ".*")
    for query in QUERIES:
        for name, selection in re.findall(r"(chat_proxy_\w+)(\{[^}]*\})?", query):
            if "model" in KNOWN[name.removesuffix("_bucket")]:
                assert 'model=~"$model"' in selection
                assert 'upstream=~"$upstream"' in selection
