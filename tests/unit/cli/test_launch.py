"""What `chat-proxy launch` sets, prints and passes on."""

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from chat_proxy.cli.launch import launch
from chat_proxy.cli.launch.clients import CLIENTS, Target
from chat_proxy.cli.main import parsed
from chat_proxy.config.settings import Settings
from chat_proxy.errors import BadConfiguration

CLAUDE = CLIENTS["claude"]
TARGET = Target("http://127.0.0.1:8100", "some-model")


def settings(**sections: Any) -> Settings:
    return Settings(_env_file=None, **sections)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:8100"),
        ("0.0.0.0", "http://127.0.0.1:8100"),
        ("::", "http://[::1]:8100"),
        ("models.example", "http://models.example:8100"),
    ],
)
def test_the_proxy_is_reached_at_an_address_of_its_own(host: str, address: str) -> None:
    assert launch.address_of(settings(server={"host": host})) == address


@pytest.mark.parametrize(
    ("own_keys", "variables", "key", "added"),
    [
        ([], {}, "", {"ANTHROPIC_AUTH_TOKEN": "chat-proxy"}),
        ([], {"ANTHROPIC_API_KEY": "a"}, "a", {}),
        ([], {"ANTHROPIC_AUTH_TOKEN": "b", "ANTHROPIC_API_KEY": "a"}, "b", {}),
        (["own"], {}, "own", {"ANTHROPIC_AUTH_TOKEN": "own"}),
        (
            ["own"],
            {"ANTHROPIC_API_KEY": "a"},
            "own",
            {"ANTHROPIC_AUTH_TOKEN": "own", "ANTHROPIC_API_KEY": ""},
        ),
        (["own"], {"ANTHROPIC_AUTH_TOKEN": "own"}, "own", {}),
    ],
)
def test_a_key_is_set_unless_the_client_has_it(
    own_keys: list[str], variables: Mapping[str, str], key: str, added: Mapping[str, str]
) -> None:
    found = launch.key_for(CLAUDE, settings(auth={"keys": own_keys}), variables)

    assert found == key
    assert launch.keys_to_set(CLAUDE, found, variables) == added


def test_another_proxy_gets_no_key_of_ours() -> None:
    assert launch.key_for(CLAUDE, None, {}) == ""


def test_a_web_proxy_is_not_asked_for_the_address() -> None:
    assert launch.around(TARGET.root, {}) == {}
    assert launch.around(TARGET.root, {"HTTPS_PROXY": "x", "no_proxy": "a"}) == {
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "a,127.0.0.1",
    }


@pytest.mark.parametrize("name", CLIENTS)
def test_what_is_set_is_printed_without_keys(name: str) -> None:
    client = CLIENTS[name]
    start = client.start(TARGET)
    added = {**start.variables, client.key: "sk-secret"}

    lines = "\n".join(launch.told(client, added, start))

    assert f"{client.program} is started with" in lines
    assert "some-model" in lines
    assert TARGET.root in lines
    assert f"{client.key}=***" in lines
    assert "sk-secret" not in lines


@pytest.mark.parametrize(
    "document", [{}, {"data": []}, {"data": [{}]}, {"data": [{"id": 7}]}, [], None]
)
def test_a_listing_without_models_is_told(document: object) -> None:
    with pytest.raises(BadConfiguration, match="lists no model"):
        launch.first_model(httpx.Response(200, json=document))


def test_the_first_model_is_taken() -> None:
    listing = {"data": [{"id": "one"}, {"id": "two"}]}

    assert launch.first_model(httpx.Response(200, json=listing)) == "one"


class Replaced(Exception):
    """The process would be another program now."""


def test_the_client_takes_the_place_of_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CHAT_PROXY_UPSTREAM_API_KEY", "sk-upstream")
    monkeypatch.setattr(launch, "model_to_use", lambda *_: "some-model")
    started: list[tuple[Any, ...]] = []

    def replace(*given: Any) -> None:
        started.append(given)
        raise Replaced

    monkeypatch.setattr(os, "execve", replace)
    with pytest.raises(Replaced):
        launch.run(parsed(["launch", "codex", "--", "exec", "--", "Hi"]))

    [(path, command, variables)] = started
    assert (path, command[-3:]) == (str(program), ["exec", "--", "Hi"])
    assert variables["OPENAI_API_KEY"] == "chat-proxy"
    assert "CHAT_PROXY_UPSTREAM_API_KEY" not in variables


def test_a_client_that_is_not_installed_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(BadConfiguration, match="npm install --global @qwen-code/qwen-code"):
        launch.run(Namespace(client="qwen", url=None, model=None, passed_on=[]))


@pytest.mark.parametrize("root", ["http://127.0.0.1:1", "http://[", "no address"])
def test_a_proxy_that_does_not_answer_is_told(root: str) -> None:
    with pytest.raises(BadConfiguration, match="no proxy answers"):
        launch.model_to_use(root, "", "some-model")
