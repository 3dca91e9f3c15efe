import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from chat_proxy import __version__
from chat_proxy.config.environment import is_secret, read_settings, setting_names
from chat_proxy.config.settings import Settings
from chat_proxy.wiring import make_services, refuse_to_expose_keys
from tests.packaging.compose_file import TEXT as COMPOSE
from tests.packaging.compose_file import with_defaults

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "configs" / "kubernetes"
# What not every cluster can read, and what is no manifest: test_kustomize.py looks at both.
OTHERS = {"service-monitor", "kustomization"}
FILES = sorted(path for path in FOLDER.glob("*/*.yaml") if path.stem not in OTHERS)
DEPLOY = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
PROXIES = ("sidecar", "stand-alone")
# What the proxy and uvicorn take to end answers and to close, behind grace and drain.
LAST_WORDS_SECONDS = 5
CLOSING_SECONDS = 15

Manifest = dict[str, Any]


def manifests(name: str) -> list[Manifest]:
    (file,) = (path for path in FILES if path.stem == name)
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


def of_kind(name: str, kind: str) -> Manifest:
    (found,) = (each for each in manifests(name) if each["kind"] == kind)
    return found


def pod_of(name: str) -> Manifest:
    template: Manifest = of_kind(name, "Deployment")["spec"]["template"]
    return template


def labels_of(name: str) -> dict[str, str]:
    labels: dict[str, str] = pod_of(name)["metadata"]["labels"]
    return labels


def containers_of(name: str) -> Iterator[Manifest]:
    spec = pod_of(name)["spec"]
    yield from spec.get("initContainers", [])
    yield from spec["containers"]


def proxy_in(name: str) -> Manifest:
    (proxy,) = (each for each in containers_of(name) if each["name"] == "chat-proxy")
    return proxy


def every_container() -> Iterator[Manifest]:
    for file in FILES:
        yield from containers_of(file.stem)


def compose_images() -> list[str]:
    return re.findall(r"image: (\S+)", with_defaults(COMPOSE))


def variables_of(name: str) -> dict[str, str]:
    """Return the proxy's environment as the kubelet makes it, each secret a word of its own."""
    variables: dict[str, str] = {}
    for entry in proxy_in(name)["env"]:
        reference = entry.get("valueFrom", {}).get("secretKeyRef")
        value = f"word-of-{reference['key']}" if reference else entry["value"]
        for earlier, told in variables.items():
            value = value.replace(f"$({earlier})", told)
        variables[entry["name"]] = value
    return variables


def secrets_of(name: str) -> Iterator[Manifest]:
    for container in containers_of(name):
        for entry in container.get("env", []):
            if "valueFrom" in entry:
                yield entry["valueFrom"]["secretKeyRef"]


def secrets_made_by_the_guide() -> Iterator[tuple[str, str]]:
    for name, rest in re.findall(r"create secret generic (\S+) ((?:.*\\\n)*.*)", DEPLOY):
        for key in re.findall(r"--from-literal=([\w-]+)=", rest):
            yield name, key


def settings_of(name: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for variable, value in variables_of(name).items():
        monkeypatch.setenv(variable, value)
    # As the image sets it.
    monkeypatch.setenv("CHAT_PROXY_SERVER_HOST", "0.0.0.0")
    return read_settings(env_file=None)


def destinations(name: str) -> set[int]:
    rules = of_kind(name, "NetworkPolicy")["spec"]["egress"]
    assert all(rule["to"] for rule in rules)
    return {port["port"] for rule in rules for port in rule["ports"]}


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_every_manifest_is_what_kubernetes_expects(file: Path) -> None:
    for manifest in manifests(file.stem):
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_no_two_objects_of_a_kind_have_one_name_and_none_a_namespace(file: Path) -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in manifests(file.stem)]

    assert len(set(names)) == len(names)
    assert all("namespace" not in each["metadata"] for each in manifests(file.stem))


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_every_selector_finds_the_pod(file: Path) -> None:
    labels = labels_of(file.stem)

    found = {
        "Deployment": of_kind(file.stem, "Deployment")["spec"]["selector"]["matchLabels"],
        "Service": of_kind(file.stem, "Service")["spec"]["selector"],
        "NetworkPolicy": of_kind(file.stem, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    }

    assert found == dict.fromkeys(found, labels)


@pytest.mark.parametrize("name", PROXIES)
def test_every_variable_of_the_proxy_exists(name: str) -> None:
    ours = {each for each in variables_of(name) if each.startswith("CHAT_PROXY_")}

    assert ours
    assert ours <= set(setting_names())
    assert set(variables_of(name)) - ours <= {"REDIS_PASSWORD"}


@pytest.mark.parametrize("name", PROXIES)
def test_keys_come_from_secrets_and_from_nowhere_else(name: str) -> None:
    plain = {entry["name"] for entry in proxy_in(name)["env"] if "value" in entry}

    assert [each for each in plain if is_secret(setting_names()[each])] == []
    assert "CHAT_PROXY_AUTH_KEYS" not in plain


@pytest.mark.parametrize("name", PROXIES)
def test_the_proxy_starts_with_its_variables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(name, monkeypatch)

    refuse_to_expose_keys(settings, make_services(settings, {}))

    assert [key.get_secret_value() for key in settings.auth.keys] == ["word-of-auth-keys"]


def test_replicas_share_redis_and_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    store = settings_of("stand-alone", monkeypatch).store
    service = of_kind("redis", "Service")
    (port,) = service["spec"]["ports"]

    host = f"{service['metadata']['name']}:{port['port']}"

    assert store.url == f"redis://:word-of-redis-password@{host}/0"
    assert store.secret is not None


def test_every_variable_is_told_before_it_is_used() -> None:
    assert [value for value in variables_of("stand-alone").values() if "$(" in value] == []


@pytest.mark.parametrize("name", PROXIES)
def test_the_proxy_listens_where_service_and_policy_expect_it(name: str) -> None:
    (listening,) = proxy_in(name)["ports"]
    (service,) = of_kind(name, "Service")["spec"]["ports"]
    (rule,) = of_kind(name, "NetworkPolicy")["spec"]["ingress"]

    assert listening["containerPort"] == service["port"] == Settings().server.port
    assert service["targetPort"] == listening["name"]
    assert rule["ports"] == [{"protocol": "TCP", "port": listening["containerPort"]}]
    assert rule["from"]


@pytest.mark.parametrize(
    ("probe", "path"),
    [("startupProbe", "/healthz"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")],
)
@pytest.mark.parametrize("name", PROXIES)
def test_the_proxy_is_asked_at_its_own_paths(name: str, probe: str, path: str) -> None:
    assert proxy_in(name)[probe]["httpGet"] == {"path": path, "port": "http"}


@pytest.mark.parametrize("name", PROXIES)
def test_running_answers_may_end_before_the_pod_is_killed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = settings_of(name, monkeypatch).server

    needed = server.drain_grace_seconds + server.drain_seconds + LAST_WORDS_SECONDS

    assert pod_of(name)["spec"]["terminationGracePeriodSeconds"] >= needed + CLOSING_SECONDS


def test_vllm_starts_before_the_proxy_and_ends_after_it() -> None:
    (vllm,) = pod_of("sidecar")["spec"]["initContainers"]

    assert vllm["name"] == "vllm"
    assert vllm["restartPolicy"] == "Always"
    assert "startupProbe" in vllm


def test_vllm_is_reached_by_the_proxy_alone() -> None:
    (vllm,) = pod_of("sidecar")["spec"]["initContainers"]
    options = dict(pairwise(started_with(vllm)))

    address = f"http://{options['--host']}:{options['--port']}/v1"

    assert options["--host"] == "127.0.0.1"
    assert variables_of("sidecar")["CHAT_PROXY_UPSTREAM_BASE_URL"] == address
    assert "ports" not in vllm


def started_with(vllm: Manifest) -> list[str]:
    """Return the command of vLLM as a shell makes it, with the variables of its container."""
    variables = {entry["name"]: entry["value"] for entry in vllm["env"]}
    (command,) = vllm["args"]
    assert vllm["command"] == ["/bin/sh", "-c"]
    said = subprocess.run(
        ["/bin/sh", "-c", command.replace("exec ", "printf '%s\\n' ")],
        env=variables,
        check=True,
        capture_output=True,
        text=True,
    )
    return said.stdout.splitlines()


def test_vllm_starts_as_in_the_compose_file() -> None:
    (vllm,) = pod_of("sidecar")["spec"]["initContainers"]
    services = yaml.safe_load(with_defaults(COMPOSE))["services"]
    command = shlex.split(services["vllm"]["command"])

    arguments = started_with(vllm)

    assert arguments[:2] == ["vllm", "serve"]
    assert [it for it in command if it not in arguments] == []


def test_extra_arguments_of_vllm_are_words_and_a_model_s_name_is_one() -> None:
    (vllm,) = pod_of("sidecar")["spec"]["initContainers"]
    values = {"VLLM_EXTRA_ARGS": "--seed 1", "MODEL": "/models/my model"}
    env = [{**it, "value": values.get(it["name"], it["value"])} for it in vllm["env"]]

    arguments = started_with({**vllm, "env": env})

    assert arguments[2] == "/models/my model"
    assert arguments[-2:] == ["--seed", "1"]


@pytest.mark.parametrize("name", PROXIES)
def test_the_proxy_runs_as_the_image_has_it_and_may_write_to_its_folders_only(name: str) -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    proxy = proxy_in(name)
    context = proxy["securityContext"]

    assert f"\nUSER {context['runAsUser']}:{context['runAsGroup']}\n" in dockerfile
    assert pod_of(name)["spec"]["securityContext"]["fsGroup"] == context["runAsGroup"]
    assert {mount["mountPath"] for mount in proxy["volumeMounts"]} == {"/app/data", "/tmp"}
    assert "\nVOLUME /app/data\n" in dockerfile


@pytest.mark.parametrize("name", [*PROXIES, "redis"])
def test_what_need_not_be_root_is_not_and_can_do_nothing_else(name: str) -> None:
    (container,) = pod_of(name)["spec"]["containers"]
    context = container["securityContext"]

    assert context["runAsNonRoot"]
    assert context["readOnlyRootFilesystem"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_no_pod_has_a_token_or_variables_of_other_services(file: Path) -> None:
    spec = pod_of(file.stem)["spec"]

    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_every_container_says_what_it_needs_and_may_not_take_all_memory() -> None:
    resources = [container["resources"] for container in every_container()]

    assert all({"cpu", "memory"} <= set(each["requests"]) for each in resources)
    assert all("memory" in each["limits"] for each in resources)


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_what_is_mounted_is_there(file: Path) -> None:
    volumes = pod_of(file.stem)["spec"]["volumes"]
    mounted = {mount["name"] for each in containers_of(file.stem) for mount in each["volumeMounts"]}
    claims = {
        each["metadata"]["name"]
        for each in manifests(file.stem)
        if each["kind"] == "PersistentVolumeClaim"
    }

    wanted = {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in volumes
        if "persistentVolumeClaim" in volume
    }

    assert mounted == {volume["name"] for volume in volumes}
    assert wanted == claims


def test_the_sidecars_store_and_archive_fit_their_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of("sidecar", monkeypatch)
    (claim,) = (
        each for each in manifests("sidecar") if each["metadata"]["name"] == "vllm-chat-proxy-data"
    )
    room = int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi")) * 1024**3

    # The log beside the file, and the copy that a migration leaves.
    assert 2 * settings.store.max_bytes + settings.archive.max_bytes < room


def test_volumes_for_one_pod_are_never_wanted_by_two() -> None:
    deployment = of_kind("sidecar", "Deployment")["spec"]

    assert deployment["replicas"] == 1
    assert deployment["strategy"] == {"type": "Recreate"}


def test_the_autoscaler_alone_says_how_many_replicas_there_are() -> None:
    autoscaler = of_kind("stand-alone", "HorizontalPodAutoscaler")["spec"]
    deployment = of_kind("stand-alone", "Deployment")

    assert "replicas" not in deployment["spec"]
    assert autoscaler["scaleTargetRef"] == {
        "apiVersion": deployment["apiVersion"],
        "kind": deployment["kind"],
        "name": deployment["metadata"]["name"],
    }
    assert 1 < autoscaler["minReplicas"] < autoscaler["maxReplicas"]


def test_one_replica_at_a_time_may_be_taken_away() -> None:
    budget = of_kind("stand-alone", "PodDisruptionBudget")["spec"]

    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"] == labels_of("stand-alone")


def test_the_proxy_reaches_the_model_redis_and_names_only() -> None:
    assert destinations("stand-alone") == {8000, 6379, 53}
    assert destinations("sidecar") == {443, 53}
    assert destinations("redis") == set()


def test_redis_is_reached_by_the_proxy_alone() -> None:
    (rule,) = of_kind("redis", "NetworkPolicy")["spec"]["ingress"]
    to_redis = of_kind("stand-alone", "NetworkPolicy")["spec"]["egress"][1]

    assert rule["from"] == [{"podSelector": {"matchLabels": labels_of("stand-alone")}}]
    assert to_redis["to"] == [{"podSelector": {"matchLabels": labels_of("redis")}}]
    assert to_redis["ports"] == rule["ports"]


def test_images_are_those_of_the_compose_file_and_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    images = {container["image"] for container in every_container()}

    assert images <= set(compose_images())
    assert f"{project['name']}:{__version__}" in images


def test_redis_is_set_up_as_in_the_compose_file() -> None:
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    (redis,) = containers_of("redis")

    told = [*redis["command"], *redis["args"][:4]]

    assert f"command: {told}".replace("'", '"') in compose


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_the_guide_names_every_manifest_and_makes_every_secret_it_needs(file: Path) -> None:
    needed = {
        (reference["name"], reference["key"])
        for reference in secrets_of(file.stem)
        if not reference.get("optional")
    }

    assert f"`{file.name}`" in DEPLOY
    assert needed
    assert needed <= set(secrets_made_by_the_guide())


def test_the_guide_has_only_variables_that_exist() -> None:
    named = set(re.findall(r"CHAT_PROXY_[A-Z_]+", DEPLOY))

    assert len(named) > 10
    assert named <= set(setting_names())


def test_the_guides_nginx_passes_streams_on_as_they_come() -> None:
    (config,) = re.findall(r"```nginx\n(.*?)```", DEPLOY, re.DOTALL)
    settings = Settings()
    (seconds,) = map(int, re.findall(r"proxy_read_timeout (\d+)s;", config))
    (mebibytes,) = map(int, re.findall(r"client_max_body_size (\d+)m;", config))

    assert "proxy_buffering off;" in config
    assert "proxy_http_version 1.1;" in config
    assert seconds > (
        settings.upstream.first_byte_timeout_seconds + settings.summary.timeout_seconds
    )
    assert mebibytes * 1024**2 > settings.limits.max_body_bytes


def test_every_link_of_the_guide_leads_to_a_file() -> None:
    links = re.findall(r"\]\((\.\./[^)#]*)", DEPLOY)

    assert links
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
