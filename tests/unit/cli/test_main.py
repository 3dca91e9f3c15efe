"""The command line: what it says, and how it ends."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from openai import AsyncOpenAI

from chat_proxy import __version__
from chat_proxy.cli import main as cli
from chat_proxy.cli.check_config import effective
from chat_proxy.config.documented import written
from chat_proxy.config.settings import PREFIX
from tests.support.clock import own_seconds_to_end
from tests.support.command import ask, run_command, running_command
from tests.support.fake_model import Line, Received, answer_json, fake_model, polite
from tests.support.live import settings

Checked = Callable[..., Awaitable[tuple[int, list[str]]]]
HELLO = {"model": "demo", "messages": [{"role": "user", "content": "Hello!"}]}


def leave(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code and what it said."""
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    said = capsys.readouterr()
    return int(str(left.value.code or 0)), said.out, said.err


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder: no .env, no registry."""
    monkeypatch.chdir(tmp_path)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = leave(capsys, "--help")

    assert code == 0
    for command in ("serve", "demo", "check-config"):
        assert command in out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(capsys, "--version") == (0, f"{__version__}\n", "")


@pytest.mark.parametrize("arguments", [[], ["sevre"], ["demo", "--window", "x"]])
def test_a_command_that_is_not_there_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = leave(capsys, *arguments)

    assert code == 2
    assert err.startswith("usage: chat-proxy")


@pytest.mark.parametrize("command", ["serve", "demo", "check-config"])
def test_a_bad_setting_ends_every_command_with_its_line(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_PROXY_SERVER_PROT", "1")

    code, out, err = leave(capsys, command)

    assert (code, out) == (2, "")
    assert err == (
        "chat-proxy: CHAT_PROXY_SERVER_PROT='1': there is no such setting; "
        "did you mean CHAT_PROXY_SERVER_PORT?\n"
    )


def test_a_window_without_room_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert leave(capsys, "demo", "--window", "0") == (
        2, "", "chat-proxy: --window 0: must be at least 1\n"
    )  # fmt: skip


@pytest.mark.parametrize("command", ["serve", "demo"])
@pytest.mark.parametrize(
    ("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)]
)
def test_a_port_that_is_taken_is_one_line(
    command: str,
    host: str,
    family: socket.AddressFamily,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server((host, 0), family=family) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("CHAT_PROXY_SERVER_HOST", host)
        monkeypatch.setenv("CHAT_PROXY_SERVER_PORT", str(port))
        code, _, err = leave(capsys, command)

    assert code == 2
    assert err == (
        f"chat-proxy: CHAT_PROXY_SERVER_PORT={port}: cannot listen on {host}: "
        "Address already in use; stop what uses it, or choose another by --port\n"
    )


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "a" * 70, "[::1]"])
def test_an_address_that_is_not_ours_is_one_line(
    host: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_PROXY_SERVER_HOST", host)

    code, _, err = leave(capsys, "serve")

    assert code == 2
    assert err.startswith(f"chat-proxy: CHAT_PROXY_SERVER_HOST={host}: cannot listen on {host}: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "said"), [(None, "No such file"), ("x", "no PEM certificates")]
)
def test_a_ca_file_that_cannot_be_used_is_one_line(
    content: str | None,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "ca.pem"
    if content:
        file.write_text(content)
    monkeypatch.setenv("CHAT_PROXY_UPSTREAM_CA_FILE", str(file))

    code, _, err = leave(capsys, "serve")

    assert code == 2
    assert err.startswith(f"chat-proxy: CHAT_PROXY_UPSTREAM_CA_FILE='{file}': {said}")
    assert err.count("\n") == 1


def test_a_broken_registry_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """E11."""
    file = tmp_path / "registry.json"
    file.write_text('[{"name": "a", "contxt_window": 1}]')
    monkeypatch.setenv("CHAT_PROXY_REGISTRY_FILE", str(file))

    code, _, err = leave(capsys, "serve")

    assert code == 2
    assert err.startswith(f"chat-proxy: {file}: entry 1 ('a'): 'contxt_window': ")
    assert err.count("\n") == 1


@pytest.mark.anyio
async def test_a_process_that_cannot_be_configured_says_so_and_leaves_with_2(
    tmp_path: Path,
) -> None:
    """F1, E11: as a process of its own, through the environment and through .env."""
    (tmp_path / ".env").write_text("CHAT_PROXY_LOG_LEVEL=loud\n")
    registry = tmp_path / "registry.json"
    registry.write_text(json.dumps([{"name": "m", "overrides": {"server_port": 1}}]))

    ended = await asyncio.gather(
        run_command("serve", SERVER_PROT="1"),
        run_command("serve", cwd=tmp_path),
        run_command("serve", SERVER_HOST="0.0.0.0", UPSTREAM_API_KEY="sk-canary"),
        run_command("serve", REGISTRY_FILE=str(registry)),
    )

    assert [command.code for command in ended] == [2] * 4
    assert [command.err.count("\n") for command in ended] == [1] * 4
    assert "did you mean CHAT_PROXY_SERVER_PORT?" in ended[0].err
    assert ended[1].err.startswith("chat-proxy: CHAT_PROXY_LOG_LEVEL='loud': must be 'debug'")
    assert "set CHAT_PROXY_AUTH_KEYS" in ended[2].err
    assert "'server_port': cannot be set for one model" in ended[3].err
    assert "canary" not in "".join(command.err for command in ended)


@pytest.mark.anyio
async def test_serve_takes_a_free_port_and_kubernetes_variables_and_stops_with_0() -> None:
    kubernetes = {
        "SERVICE_HOST": "10.0.0.1",
        "PORT": "tcp://10.0.0.1:8100",
        "PORT_8100_TCP_ADDR": "10.0.0.1",
    }
    async with running_command("serve", SERVER_DRAIN_GRACE_SECONDS="0", **kubernetes) as command:
        answer = await ask(f"{await command.url()}/health")
        await command.said("chat-proxy starts")
        command.process.send_signal(signal.SIGTERM)
        code = await command.ended()

    assert answer.json() == {"status": "ok"}
    assert code == 0
    messages = [line["message"] for line in command.log()]
    # The upstream is asked meanwhile, so this line comes before the next one or after it.
    messages.remove("chat-proxy starts")
    assert messages == [
        "server started",
        "server stopping",
        "server stopped",
    ]
    assert command.out == []


@pytest.mark.anyio
async def test_the_demo_answers_curl_and_the_sdk_and_stops_at_once() -> None:
    async with running_command("demo", UPSTREAM_BASE_URL="http://127.0.0.1:1/v1") as command:
        url = await command.url()
        chat = f"{url}/v1/chat/completions"
        whole = await ask(chat, "POST", json=HELLO)
        stream = await ask(chat, "POST", json={**HELLO, "stream": True})
        metrics = await ask(f"{url}/metrics")
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="anything") as client:
            completion = await client.chat.completions.create(**HELLO)  # type: ignore[call-overload]
            chunks = await client.chat.completions.create(**HELLO, stream=True)  # type: ignore[call-overload]
            words = [
                chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices
            ]
            models = [model.id async for model in client.models.list()]
        command.process.send_signal(signal.SIGINT)
        seconds = await own_seconds_to_end(command.process)
        code = await command.ended()

    assert whole.json()["choices"][0]["message"]["content"]
    assert stream.text.endswith("data: [DONE]\n\n")
    assert completion.choices[0].message.content
    assert "".join(words)
    assert models
    assert re.search(r'requests_total\{.*/v1/chat/completions.*status="200".*\} 2\.0', metrics.text)
    assert code == 0
    assert seconds < 2
    told = "".join(command.out)
    assert f"curl {url}/v1/chat/completions" in told
    assert f"curl {url}/metrics" in told


# check-config


async def wants_a_key(received: Received, line: Line) -> None:
    if received.header("authorization") == "Bearer sk-right":
        await polite(received, line)
    else:
        await answer_json(line, {"error": {"message": "sk-canary"}}, 401)


@pytest.fixture
def checked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Checked:
    """Run check-config in a thread of this process; return its exit code and its lines."""

    async def check(*arguments: str, **variables: str) -> tuple[int, list[str]]:
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name if name.endswith("_KEY") else f"CHAT_PROXY_{name}", value)
            code, out, err = await asyncio.to_thread(leave, capsys, "check-config", *arguments)
        assert err == ""
        return code, out.splitlines()

    return check


@pytest.mark.anyio
async def test_check_config_shows_what_counts_masks_keys_and_asks_the_upstreams(
    tmp_path: Path, checked: Checked
) -> None:
    registry = tmp_path / "registry.json"
    async with fake_model(polite) as model:
        entries = [
            {"name": "own", "aliases": ["mine"], "base_url": "http://127.0.0.1:1/v1"},
            {"name": "fake", "context_window": 99, "vision": True, "api_key_env": "FAKE_KEY"},
            {"name": "cut", "overrides": {"vision_keep_last_n_turns": 1}},
        ]
        registry.write_text(json.dumps(entries))
        code, lines = await checked(
            FAKE_KEY="sk-canary",
            CHAT_PROXY_UPSTREAM_API_KEY="sk-canary",
            REGISTRY_FILE=str(registry),
            UPSTREAM_BASE_URL=model.url,
            AUTH_KEYS="canary1,canary2",
            STORE_URL="memory:",
            LOG_LEVEL="info",
        )

    assert code == 1
    assert "canary" not in "".join(lines)
    for line in (
        "CHAT_PROXY_MODE=on",
        "CHAT_PROXY_SERVER_HOST=127.0.0.1",
        "CHAT_PROXY_UPSTREAM_API_KEY=***  # set",
        "CHAT_PROXY_AUTH_KEYS=***  # set",
        "CHAT_PROXY_AUTH_ADMIN_KEY=",
        "CHAT_PROXY_STORE_URL=memory:  # set",
        "CHAT_PROXY_LOG_LEVEL=info  # set",
        "CHAT_PROXY_PRUNE_PROTECTED_TOOLS=skill",
        "model own: upstream http://127.0.0.1:1/v1; aliases mine",
        "model fake: window 99; vision True; key from FAKE_KEY",
        "model cut: overrides vision_keep_last_n_turns",
        "upstream http://127.0.0.1:1/v1: The upstream refused the connection.",
        f"upstream {model.url}: ok; fake (window 4096)",
    ):
        assert line in lines
    assert model.requests[0].header("authorization") == "Bearer sk-canary"


@pytest.mark.anyio
async def test_check_config_tells_whether_the_upstream_answers(checked: Checked) -> None:
    key = "CHAT_PROXY_UPSTREAM_API_KEY"
    async with fake_model(wants_a_key) as model:
        good, said = await checked(UPSTREAM_BASE_URL=model.url, **{key: "sk-right"})
        bad, refused = await checked(UPSTREAM_BASE_URL=model.url, **{key: "sk-wrong"})
        without, open_ = await checked(UPSTREAM_BASE_URL=model.url)
        off, lines = await checked("--no-probe", UPSTREAM_BASE_URL="http://127.0.0.1:1/v1")

    assert (good, said[-1]) == (0, f"upstream {model.url}: ok; fake (window 4096)")
    assert (bad, refused[-1]) == (
        1, f"upstream {model.url}: The upstream answered 401 to GET /models."
    )  # fmt: skip
    assert (without, open_[-1]) == (
        0, f"upstream {model.url}: ok; it requires a key, which clients must send"
    )  # fmt: skip
    assert off == 0
    assert not any(line.startswith("upstream ") for line in lines)


@pytest.mark.anyio
async def test_a_reader_that_has_seen_enough_is_no_mistake() -> None:
    read, write = os.pipe()
    process = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        'exec "$0" -m chat_proxy check-config --no-probe',
        sys.executable,
        cwd=Path(__file__).parents[3],
        stdout=write,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(write)
    os.close(read)

    _, err = await process.communicate()

    assert err == b""


def test_check_config_masks_a_password_in_a_store_s_url() -> None:
    chosen = settings(store={"url": "redis://:canary@redis/0"})

    lines = list(effective(chosen, PREFIX))

    assert "CHAT_PROXY_STORE_URL=redis://***@redis/0  # set" in lines


def test_check_config_writes_json_as_it_is_read() -> None:
    assert written({"top_p": None}) == '{"top_p": null}'


def test_redis_without_a_shared_secret_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHAT_PROXY_STORE_URL", "redis://:canary@redis/0")

    code, _, err = leave(capsys, "serve")

    assert code == 2
    assert err.startswith("chat-proxy: CHAT_PROXY_STORE_URL: Redis needs CHAT_PROXY_STORE_SECRET")
    assert "canary" not in err


def test_help_imports_no_server_and_no_settings() -> None:
    """A help text in the blink of an eye: FastAPI and pydantic take most of a second of CPU."""
    code = (
        "import sys\n"
        "from chat_proxy.cli.main import parser\n"
        "parser().format_help()\n"
        "print(sorted({'fastapi', 'pydantic', 'tiktoken', 'httpx'} & sys.modules.keys()))"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stdout == "[]\n"
