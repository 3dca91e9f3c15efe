"""`chat-proxy launch`: a coding agent starts with all that it needs, and nothing is written."""

import json
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.cli.launch.clients import CLIENTS
from tests.support.command import Ended, run_command
from tests.support.fake_model import fake_model
from tests.support.live import Proxy, running_proxy
from tests.support.wire_model import WireModel

pytestmark = pytest.mark.anyio

PROGRAM = f"""#!{sys.executable}
import json, os, sys
print(json.dumps({{"arguments": sys.argv[1:], "variables": dict(os.environ)}}))
sys.exit(7)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with all clients, which say how they were started, and an empty home."""
    (tmp_path / "home").mkdir()
    (tmp_path / "bin").mkdir()
    for client in CLIENTS.values():
        program = tmp_path / "bin" / client.program
        program.write_text(PROGRAM)
        program.chmod(0o755)
    return tmp_path


async def launch(
    place: Path, proxy: Proxy | None, client: str, *arguments: str, **exact: str
) -> Ended:
    """Run the command in an environment that knows of no key."""
    without = {"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": ""}
    home = {"HOME": str(place / "home"), "PATH": f"{place / 'bin'}{os.pathsep}{os.defpath}"}
    port = {"CHAT_PROXY_SERVER_PORT": str(proxy.port if proxy else 1)}
    variables = {**without, **home, **port, **exact}
    return await run_command("launch", client, *arguments, cwd=place / "home", exact=variables)


def started(ended: Ended) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the environment that the client got."""
    assert ended.code == 7, ended.err
    said: dict[str, Any] = json.loads(ended.out)
    return said["arguments"], said["variables"]


def pairs(arguments: Sequence[str]) -> dict[str, str]:
    """Return Codex' settings by their names."""
    given = [after for before, after in pairwise(arguments) if before == "-c"]
    return dict(setting.split("=", 1) for setting in given)


async def test_claude_code_gets_variables_and_its_own_arguments(place: Path) -> None:
    async with fake_model(WireModel()) as model, running_proxy(model.url) as proxy:
        ended = await launch(place, proxy, "claude", "--", "-p", "two words", "--model", "x")

    arguments, variables = started(ended)
    assert arguments == ["-p", "two words", "--model", "x"]
    assert variables["ANTHROPIC_BASE_URL"] == proxy.url
    assert variables["ANTHROPIC_AUTH_TOKEN"] == "chat-proxy"
    assert variables["ANTHROPIC_MODEL"] == variables["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == "fake"
    assert variables["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == "1"
    assert f"ANTHROPIC_BASE_URL={proxy.url}" in ended.err
    assert "ANTHROPIC_AUTH_TOKEN=***" in ended.err


async def test_codex_gets_its_configuration_as_arguments(place: Path) -> None:
    async with fake_model(WireModel()) as model, running_proxy(model.url) as proxy:
        ended = await launch(place, proxy, "codex", "--model", 'a "b"', "--", "exec", "Hi")

    arguments, variables = started(ended)
    settings = pairs(arguments)
    assert arguments[-2:] == ["exec", "Hi"]
    assert json.loads(settings["model"]) == 'a "b"'
    assert settings["model_provider"] == '"chat-proxy"'
    assert f'base_url = "{proxy.url}/v1"' in settings["model_providers.chat-proxy"]
    assert variables["OPENAI_API_KEY"] == "chat-proxy"
    assert "model_providers.chat-proxy" in ended.err


async def test_opencode_and_qwen_code_get_variables(place: Path) -> None:
    async with fake_model(WireModel()) as model, running_proxy(model.url) as proxy:
        _, open_code = started(await launch(place, proxy, "opencode"))
        arguments, qwen = started(await launch(place, proxy, "qwen", "--", "--yolo"))

    config = json.loads(open_code["OPENCODE_CONFIG_CONTENT"])
    assert config["model"] == "chat-proxy/fake"
    assert config["provider"]["chat-proxy"]["options"]["baseURL"] == f"{proxy.url}/v1"
    assert arguments == ["--auth-type", "openai", "--yolo"]
    assert (qwen["OPENAI_BASE_URL"], qwen["OPENAI_MODEL"]) == (f"{proxy.url}/v1", "fake")


async def test_nothing_is_written_and_no_setting_of_the_proxy_is_passed_on(place: Path) -> None:
    async with fake_model(WireModel()) as model, running_proxy(model.url) as proxy:
        for client in CLIENTS:
            secret = {"CHAT_PROXY_UPSTREAM_API_KEY": "sk-upstream"}
            _, variables = started(await launch(place, proxy, client, **secret))

            assert not [name for name in variables if name.startswith("CHAT_PROXY_")]

    assert list((place / "home").iterdir()) == []


async def test_a_key_of_the_proxy_is_used_and_replaces_others(place: Path) -> None:
    auth = {"keys": ["own-key"]}
    keys = {"CHAT_PROXY_AUTH_KEYS": "own-key", "ANTHROPIC_API_KEY": "sk-real"}
    async with fake_model(WireModel()) as model, running_proxy(model.url, auth=auth) as proxy:
        ended = await launch(place, proxy, "claude", **keys)

    _, variables = started(ended)
    assert (variables["ANTHROPIC_AUTH_TOKEN"], variables["ANTHROPIC_API_KEY"]) == ("own-key", "")
    assert "own-key" not in ended.err


async def test_the_clients_own_key_stays_as_it_is(place: Path) -> None:
    async with fake_model(WireModel()) as model, running_proxy(model.url) as proxy:
        ended = await launch(place, proxy, "claude", ANTHROPIC_API_KEY="sk-real")
        [listing] = [it for it in model.requests if it.header("authorization")]

    _, variables = started(ended)
    assert (variables["ANTHROPIC_AUTH_TOKEN"], variables["ANTHROPIC_API_KEY"]) == ("", "sk-real")
    assert listing.header("authorization") == "Bearer sk-real"
    assert "sk-real" not in ended.err


async def test_another_proxy_can_be_named_and_gets_no_key_of_this_one(place: Path) -> None:
    keys = {"CHAT_PROXY_AUTH_KEYS": "own-key", "http_proxy": "http://127.0.0.1:1"}
    async with fake_model(WireModel()) as model, running_proxy(model.url) as proxy:
        ended = await launch(place, None, "codex", "--url", f"{proxy.url}/v1/", **keys)

    arguments, variables = started(ended)
    assert f'"{proxy.url}/v1"' in pairs(arguments)["model_providers.chat-proxy"]
    assert variables["OPENAI_API_KEY"] == "chat-proxy"
    assert variables["NO_PROXY"].split(",")[-1] == "127.0.0.1"


async def test_without_a_proxy_or_a_model_or_a_client_there_is_one_clear_line(place: Path) -> None:
    async with fake_model(WireModel()) as model, running_proxy(model.url) as proxy:
        gone = await launch(place, None, "claude")
        (place / "bin" / "codex").unlink()
        missing = await launch(place, proxy, "codex")
    async with running_proxy("http://127.0.0.1:1/v1") as proxy:
        silent = await launch(place, proxy, "claude")
    odd = await launch(place, None, "claude", "--url", "http://[")

    assert [each.code for each in (gone, missing, silent, odd)] == [2, 2, 2, 2]
    start = "no proxy answers; start it by `chat-proxy serve`"
    assert gone.err == f"chat-proxy: http://127.0.0.1:1: {start}\n"
    assert missing.err == (
        "chat-proxy: codex: is not installed; npm install --global @openai/codex\n"
    )
    assert silent.err == (
        "chat-proxy: the proxy lists no model (status 502); name one by --model\n"
    )
    assert odd.err == f"chat-proxy: http://[: {start}\n"
