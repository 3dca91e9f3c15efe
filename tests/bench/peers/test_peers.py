"""How the peers are started; they are installed only by a run of the benchmark."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.contenders import Place
from bench.options import read_options
from bench.peers import agentic_api, envoy, headroom, litellm, portkey
from bench.peers.catalogue import PEERS
from bench.peers.install import PeerUnavailable, install_once
from bench.servers import Launch

LAUNCHES = (
    agentic_api.launch_agentic_api,
    envoy.launch_envoy,
    headroom.launch_headroom,
    litellm.launch_litellm,
    portkey.launch_portkey,
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(18_001, 18_002, tmp_path)


def test_envoy_relays_everything_on_the_loopback_with_one_worker(place: Place) -> None:
    launch = envoy.launch_envoy(place)
    config = yaml.safe_load((place.folder / "envoy-18001.yaml").read_text(encoding="utf-8"))
    (listener,) = config["static_resources"]["listeners"]
    (cluster,) = config["static_resources"]["clusters"]
    (group,) = cluster["load_assignment"]["endpoints"]
    (host,) = _manager(listener)["route_config"]["virtual_hosts"]
    (route,) = host["routes"]

    assert listener["address"]["socket_address"] == {"address": "127.0.0.1", "port_value": 18_001}
    assert group["lb_endpoints"][0]["endpoint"]["address"]["socket_address"]["port_value"] == 18_002
    assert (route["match"], route["route"]["timeout"]) == ({"prefix": "/"}, "0s")
    assert launch.command[launch.command.index("--concurrency") + 1] == "1"
    assert "access_log" not in _manager(listener)


def _manager(listener: dict[str, Any]) -> dict[str, Any]:
    (chain,) = listener["filter_chains"]
    config: dict[str, Any] = chain["filters"][0]["typed_config"]
    return config


@pytest.mark.parametrize("launch", LAUNCHES, ids=lambda it: it.__name__)
def test_a_peer_listens_on_its_port_and_calls_the_upstream(launch: Any, place: Place) -> None:
    launched: Launch = launch(place)
    told = " ".join([*launched.command, *launched.headers.values(), *launched.environment.values()])
    told += "".join(path.read_text(encoding="utf-8") for path in place.folder.iterdir())

    assert launched.port == 18_001
    assert "18001" in told
    assert "18002" in told


def test_peers_take_part_only_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["bench"])
    monkeypatch.delenv("BENCH_PEERS", raising=False)
    assert read_options(["nginx"], list(PEERS)).names == ["nginx"]

    monkeypatch.setenv("BENCH_PEERS", "1")
    assert read_options(["nginx"], list(PEERS)).names == ["nginx", *PEERS]
    assert {envoy.ENVOY, agentic_api.AGENTIC_API, litellm.LITELLM} <= set(PEERS)


def test_what_cannot_be_installed_says_why_and_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "peer"

    with pytest.raises(PeerUnavailable, match="sh failed: no such package"):
        install_once(folder, [["/bin/sh", "-c", "echo no such package >&2; exit 3"]])
    install_once(folder, [["/bin/sh", "-c", f"echo once >> {tmp_path}/log"]])
    install_once(folder, [["/bin/sh", "-c", f"echo twice >> {tmp_path}/log"]])

    assert (tmp_path / "log").read_text(encoding="utf-8") == "once\n"
