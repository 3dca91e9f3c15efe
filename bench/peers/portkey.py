"""Portkey's gateway, on Node."""

import json
import shutil

from bench.contenders import Contender, Place
from bench.peers.install import PeerUnavailable, folder_of, install_once
from bench.servers import Launch

PORTKEY, PORTKEY_VERSION = "Portkey", "1.15.2"

_PORTKEY = folder_of(PORTKEY, PORTKEY_VERSION)
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


def install_portkey() -> Contender:
    """Return the Portkey gateway, installed on first use."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise PeerUnavailable("node and npm are not installed")
    options = ["--prefix", str(_PORTKEY), "--ignore-scripts", "--no-audit", "--no-fund"]
    _PORTKEY.mkdir(parents=True, exist_ok=True)
    (_PORTKEY / "package.json").write_text(_PORTKEY_PACKAGE)
    install_once(_PORTKEY, [[npm, "install", *options]])
    return Contender(PORTKEY, PORTKEY_VERSION, launch_portkey)


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
