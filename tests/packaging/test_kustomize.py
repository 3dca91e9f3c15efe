"""The bases of kustomize, and what tells the Prometheus operator about the proxy."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "configs" / "kubernetes"
BASES = sorted(path.parent for path in FOLDER.glob("*/kustomization.yaml"))
DEPLOY = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
# In a cluster without the Prometheus operator, it would be refused.
OPTIONAL = "service-monitor.yaml"


def document(file: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return loaded


def objects(base: Path, kind: str) -> list[dict[str, Any]]:
    files = document(base / "kustomization.yaml")["resources"]
    every = (it for name in files for it in yaml.safe_load_all((base / name).read_text("utf-8")))
    return [it for it in every if it["kind"] == kind]


def proxy_service(base: Path) -> dict[str, Any]:
    (found,) = (it for it in objects(base, "Service") if "redis" not in it["metadata"]["name"])
    return found


def test_every_folder_is_a_base_and_the_guide_names_it() -> None:
    assert sorted(path for path in FOLDER.iterdir() if path.is_dir()) == BASES
    assert [base.name for base in BASES if f"configs/kubernetes/{base.name}" not in DEPLOY] == []


@pytest.mark.parametrize("base", BASES, ids=lambda path: path.name)
def test_a_base_has_every_manifest_of_its_folder_but_the_optional_one(base: Path) -> None:
    kustomization = document(base / "kustomization.yaml")
    others = {path.name for path in base.glob("*.yaml")} - {"kustomization.yaml"}

    assert kustomization["kind"] == "Kustomization"
    assert {*kustomization["resources"], OPTIONAL} == others
    assert f"# - {OPTIONAL}" in (base / "kustomization.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("base", BASES, ids=lambda path: path.name)
def test_the_monitor_reads_the_proxy_where_it_is(base: Path) -> None:
    monitor = document(base / OPTIONAL)
    service = proxy_service(base)
    (endpoint,) = monitor["spec"]["endpoints"]

    assert (monitor["apiVersion"], monitor["kind"]) == (
        "monitoring.coreos.com/v1", "ServiceMonitor"
    )  # fmt: skip
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["path"] == "/metrics"


@pytest.mark.parametrize("base", BASES, ids=lambda path: path.name)
def test_the_monitor_has_the_key_that_the_proxy_asks_for(base: Path) -> None:
    (endpoint,) = document(base / OPTIONAL)["spec"]["endpoints"]
    containers = (
        it
        for deployment in objects(base, "Deployment")
        for it in deployment["spec"]["template"]["spec"]["containers"]
        if it["name"] == "chat-proxy"
    )
    (key,) = (
        entry["valueFrom"]["secretKeyRef"]
        for container in containers
        for entry in container["env"]
        if entry["name"] == "CHAT_PROXY_AUTH_ADMIN_KEY"
    )

    assert endpoint["authorization"]["type"] == "Bearer"
    assert endpoint["authorization"]["credentials"].items() <= key.items()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("base", BASES, ids=lambda path: path.name)
def test_kubectl_builds_the_base_with_an_image_of_ones_own(base: Path, tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "bases")
    image = {"name": "chat-proxy", "newName": "registry.example/chat-proxy", "newTag": "9"}
    own = {"resources": [f"bases/{base.name}", f"bases/{base.name}-monitor"], "images": [image]}
    monitor = tmp_path / "bases" / f"{base.name}-monitor"
    monitor.mkdir()
    shutil.copy(base / OPTIONAL, monitor)
    (monitor / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [OPTIONAL]}))
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(own))

    built = subprocess.run(
        ["kubectl", "kustomize", str(tmp_path)], check=True, capture_output=True, text=True
    )

    kinds = [it["kind"] for it in yaml.safe_load_all(built.stdout)]
    assert {"Deployment", "Service", "NetworkPolicy", "ServiceMonitor"} <= set(kinds)
    assert "image: registry.example/chat-proxy:9\n" in built.stdout
