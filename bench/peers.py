"""Four gateways of the field, in environments of their own under `bench/.peers/`.

The versions are fixed: a figure means nothing without them, and a new release is not run unseen.
"""

import json
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

from bench.contenders import Contender, Place
from bench.payloads import MODEL
from bench.servers import Launch

LITELLM, PORTKEY, HEADROOM, AGENTIC_API = "LiteLLM", "Portkey", "headroom", "agentic-api"
LITELLM_VERSION, PORTKEY_VERSION, HEADROOM_VERSION = "1.106.2", "1.15.2", "0.42.0"
AGENTIC_API_VERSION = "0.9.0"
INSTALL_SECONDS = 900

_FOLDER = Path(__file__).resolve().parent / ".peers"
_LITELLM = _FOLDER / f"litellm-{LITELLM_VERSION}"
_PORTKEY = _FOLDER / f"portkey-{PORTKEY_VERSION}"
_HEADROOM = _FOLDER / f"headroom-{HEADROOM_VERSION}"
_AGENTIC_API = _FOLDER / f"agentic-api-{AGENTIC_API_VERSION}"
_PORTKEY_START = _PORTKEY / "node_modules/@portkey-ai/gateway/build/start-server.js"
# From 1.14.2 on every stream fails, "TypeError: immutable": Portkey-AI/gateway issue 1389.
_PORTKEY_PACKAGE = json.dumps(
    {
        "private": True,
        "dependencies": {"@portkey-ai/gateway": PORTKEY_VERSION},
        "overrides": {"@hono/node-server": "1.14.1", "@hono/node-ws": "1.2.0"},
    }
)
# Portkey listens on every address and calls whom its caller names: keep it on the loopback.
_LISTEN_ON_LOOPBACK = (
    "data:text/javascript,import net from 'node:net';"
    "const listen = net.Server.prototype.listen;"
    "net.Server.prototype.listen = function (port, host, ...rest)"
    " { return listen.call(this, port, '127.0.0.1', ...rest) }"
)
# More than 256 slow answers take longer than its five seconds between two requests.
_HEADROOM_START = (
    "import uvicorn; from headroom.cli import main; begin = uvicorn.Config.__init__; "
    "uvicorn.Config.__init__ = lambda self, *given, **named:"
    " begin(self, *given, **{**named, 'timeout_keep_alive': 75}); main()"
)
_NO_ACCESS_LOG = json.dumps(
    {
        "version": 1,
        "disable_existing_loggers": False,
        "loggers": {"uvicorn.access": {"level": "WARNING", "propagate": False}},
    }
)


class PeerUnavailable(Exception):
    """A peer cannot be installed here; the text says why."""


def install_litellm() -> Contender:
    """Return the LiteLLM proxy, installed on first use."""
    _install_from_pypi(_LITELLM, f"litellm[proxy]=={LITELLM_VERSION}")
    return Contender(LITELLM, LITELLM_VERSION, launch_litellm)


def install_headroom() -> Contender:
    """Return headroom's proxy, installed on first use."""
    _install_from_pypi(_HEADROOM, f"headroom-ai[proxy]=={HEADROOM_VERSION}")
    return Contender(HEADROOM, HEADROOM_VERSION, launch_headroom)


def install_agentic_api() -> Contender:
    """Return the vLLM project's gateway, installed on first use."""
    _install_from_pypi(_AGENTIC_API, f"agentic-api=={AGENTIC_API_VERSION}")
    return Contender(AGENTIC_API, AGENTIC_API_VERSION, launch_agentic_api)


def install_portkey() -> Contender:
    """Return the Portkey gateway, installed on first use."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise PeerUnavailable("node and npm are not installed")
    options = ["--prefix", str(_PORTKEY), "--ignore-scripts", "--no-audit", "--no-fund"]
    _PORTKEY.mkdir(parents=True, exist_ok=True)
    (_PORTKEY / "package.json").write_text(_PORTKEY_PACKAGE)
    _install_once(_PORTKEY, [[npm, "install", *options]])
    return Contender(PORTKEY, PORTKEY_VERSION, launch_portkey)


def launch_litellm(
    place: Place, model: str = MODEL, provider: str = "openai", summary_model: str | None = None
) -> Launch:
    """Start LiteLLM with one worker, no database and no request logs."""
    config = place.folder / f"litellm-{place.port}.yaml"
    config.write_text(_litellm_config(place, [model, *filter(None, [summary_model])], provider))
    if summary_model:
        with config.open("a") as settings:
            settings.write(f"  context_management_summary_model: {summary_model}\n")
    logs = place.folder / f"litellm-{place.port}-logs.json"
    logs.write_text(_NO_ACCESS_LOG)
    key = f"sk-{secrets.token_hex(32)}"  # it does not start without one
    address = ["--host", "127.0.0.1", "--port", str(place.port)]
    # More than 256 slow answers take longer than its five seconds between two requests.
    options = ["--num_workers", "1", "--keepalive_timeout", "75", "--log_config", str(logs)]
    return Launch(
        [str(_LITELLM / "bin/litellm"), "--config", str(config), *address, *options],
        place.port,
        ready_path="/health/readiness",
        environment={
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOG": "ERROR",
            "LITELLM_MASTER_KEY": key,
        },
        headers={"authorization": f"Bearer {key}"},
    )


def launch_portkey(place: Place) -> Launch:
    """Start Portkey without its console; each request names provider and host."""
    node = [shutil.which("node") or "node", "--import", _LISTEN_ON_LOOPBACK]
    return Launch(
        [*node, str(_PORTKEY_START), f"--port={place.port}", "--headless"],
        place.port,
        ready_path="/",
        environment={"NODE_ENV": "production", "TRUSTED_CUSTOM_HOSTS": "127.0.0.1"},
        headers={
            "x-portkey-provider": "openai",
            "x-portkey-custom-host": f"{place.upstream_url}/v1",
        },
    )


def launch_headroom(place: Place, *options: str) -> Launch:
    """Start headroom as a plain relay, or with options of its own; nothing is kept on disk."""
    address = ["--host", "127.0.0.1", "--port", str(place.port), "--no-http2"]
    quiet = ["--no-rate-limit", "--no-cache", "--no-telemetry", "--stateless"]
    upstream = ["--no-subscription-tracking", "--openai-api-url", place.upstream_url]
    return Launch(
        [
            *[str(_HEADROOM / "bin/python"), "-c", _HEADROOM_START, "proxy"],
            *[*address, *quiet, *upstream],
            *(options or ["--no-optimize"]),
        ],
        place.port,
        environment={
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
        },
    )


def launch_agentic_api(place: Place) -> Launch:
    """Start the vLLM project's gateway; its conversations are kept in memory."""
    address = ["--gateway-host", "127.0.0.1", "--gateway-port", str(place.port)]
    upstream = ["--llm-api-base", place.upstream_url, "--llm-ready-interval-s", "1"]
    return Launch(
        [
            str(_AGENTIC_API / "bin/agentic-server"),
            *address,
            *upstream,
            "--db-url",
            "sqlite::memory:",
        ],
        place.port,
        ready_path="/health",
    )


def _litellm_config(place: Place, models: list[str], provider: str) -> str:
    listed = "".join(
        f"""
  - model_name: {model}
    litellm_params:
      model: {provider}/{model}
      api_base: {place.upstream_url}/v1
      api_key: sk-bench"""
        for model in models
    )
    return f"""
model_list:{listed}
litellm_settings:
  telemetry: false
  set_verbose: false
  num_retries: 0
  callbacks: []
general_settings:
  disable_spend_logs: true
"""


def _install_from_pypi(folder: Path, requirement: str) -> None:
    venv = [sys.executable, "-m", "venv", "--clear", str(folder)]
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", requirement]
    _install_once(folder, [venv, pip])


def _install_once(folder: Path, commands: list[list[str]]) -> None:
    """Run the commands unless they have succeeded before."""
    done = folder / "installed"
    if done.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for command in commands:
        _run(command)
    done.touch()


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=INSTALL_SECONDS)
    except subprocess.CalledProcessError as error:
        last = (error.stderr or error.stdout or "no output").strip().splitlines()[-1]
        reason = f"{Path(command[0]).name} failed: {last}"
        raise PeerUnavailable(reason) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerUnavailable(str(error)) from error
