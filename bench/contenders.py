"""Who runs in the benchmark, and how each is started."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.servers import Launch
from chat_proxy import __file__ as package_file
from chat_proxy import __version__

NGINX, BARE_RELAY = "nginx", "bare relay"
CHAT_PROXY, CHAT_PROXY_OFF = "chat-proxy", "its mode off"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a contender listens, whom it calls, and a folder for its files."""

    port: int
    upstream_port: int
    folder: Path

    @property
    def upstream_url(self) -> str:
        """The upstream's address without a path."""
        return f"http://127.0.0.1:{self.upstream_port}"


@dataclass(frozen=True, slots=True)
class Contender:
    """A proxy to measure."""

    name: str
    version: str
    launch: Callable[[Place], Launch]


def find_nginx() -> str | None:
    """Return the path of nginx; Debian keeps it out of a user's path."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def own_contenders() -> list[Contender]:
    """Return the contenders of every run: the limit, the floor of Python, and ourselves."""
    relay_version = f"uvicorn {version('uvicorn')}, aiohttp {version('aiohttp')}"
    return [
        Contender(NGINX, _nginx_version(), launch_nginx),
        Contender(BARE_RELAY, relay_version, launch_bare_relay),
        Contender(CHAT_PROXY_OFF, __version__, launch_chat_proxy_off),
        Contender(CHAT_PROXY, __version__, launch_chat_proxy),
    ]


def launch_fake_upstream(port: int) -> Launch:
    """Start the model server that everyone calls."""
    return Launch([sys.executable, "-m", "bench.traffic.fake_upstream", str(port)], port)


def launch_bare_relay(place: Place) -> Launch:
    """Start the smallest relay that Python allows."""
    module = [sys.executable, "-m", "bench.traffic.bare_relay"]
    return Launch([*module, str(place.port), place.upstream_url], place.port)


def launch_chat_proxy_off(place: Place) -> Launch:
    """Start chat-proxy as a plain relay: nothing is counted."""
    return launch_chat_proxy(place, mode="off")


def launch_chat_proxy(
    place: Place, mode: str = "on", settings: Mapping[str, str] | None = None
) -> Launch:
    """Start chat-proxy as its users do, with nothing kept on disk, and with other settings."""
    return Launch(
        [sys.executable, "-m", "chat_proxy", "serve"],
        place.port,
        ready_path="/readyz",
        environment={
            # The same checkout as this process has, which need not be the installed one.
            "PYTHONPATH": str(Path(package_file).parent.parent),
            "CHAT_PROXY_SERVER_HOST": "127.0.0.1",
            "CHAT_PROXY_SERVER_PORT": str(place.port),
            "CHAT_PROXY_UPSTREAM_BASE_URL": f"{place.upstream_url}/v1",
            "CHAT_PROXY_STORE_URL": "memory:",
            "CHAT_PROXY_MODE": mode,
            "CHAT_PROXY_LOG_FORMAT": "json",
            **(settings or {}),
        },
    )


def launch_nginx(place: Place) -> Launch:
    """Start nginx with one worker and connections to the upstream that are kept."""
    folder = place.folder / f"nginx-{place.port}"
    folder.mkdir(exist_ok=True)
    config = folder / "nginx.conf"
    config.write_text(_nginx_config(place, folder))
    command = [find_nginx() or "nginx", "-e", "stderr", "-p", str(folder), "-c", str(config)]
    return Launch(command, place.port)


def _nginx_config(place: Place, folder: Path) -> str:
    user = "user root;" if os.geteuid() == 0 else ""  # else the worker cannot enter our folder
    temporary = "\n".join(
        f"    {kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"""
{user}
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr notice;  # it tells who stopped it
events {{ worker_connections 4096; }}
http {{
    access_log off;
{temporary}
    client_max_body_size 10m;
    client_body_buffer_size 256k;
    keepalive_requests 100000000;
    upstream model {{
        server 127.0.0.1:{place.upstream_port};
        keepalive 512;
        keepalive_requests 100000000;
    }}
    server {{
        listen 127.0.0.1:{place.port} backlog=1024;
        location / {{
            proxy_pass http://model;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""


def _nginx_version() -> str:
    nginx = find_nginx()
    if nginx is None:
        return "absent"
    said = subprocess.run([nginx, "-v"], capture_output=True, text=True, check=False)
    return said.stderr.strip().rpartition("/")[2]
