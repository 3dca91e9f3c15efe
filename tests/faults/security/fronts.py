"""nginx and HAProxy in front of the proxy, each on a free port, with few connections to it."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

STAMP = "x-front-id"
"""What a front puts on every request that it passes on; a smuggled one has none."""

_NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/log crit;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  ignore_invalid_headers off; underscores_in_headers on; merge_slashes off;
  upstream behind {{ server 127.0.0.1:{behind}; keepalive 1; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header connection "";
      proxy_request_buffering off; proxy_next_upstream off;
      proxy_set_header x-front-id $request_id;
    }}
  }}
}}
"""
_HAPROXY = """
global
  nbthread 1
defaults
  mode http
  timeout connect 2s
  timeout client 5s
  timeout server 5s
  http-reuse always
  {lax}
frontend front
  bind 127.0.0.1:{port}
  http-request set-header x-front-id %[uuid()]
  default_backend behind
backend behind
  server one 127.0.0.1:{behind}
"""
Lines = Callable[[Path, int, int], str]


def _nginx(folder: Path, port: int, behind: int) -> str:
    return _NGINX.format(folder=folder, port=port, behind=behind)


def _haproxy(_: Path, port: int, behind: int) -> str:
    return _HAPROXY.format(port=port, behind=behind, lax="")


def _lax_haproxy(_: Path, port: int, behind: int) -> str:
    lax = "option accept-invalid-http-request"
    return _HAPROXY.format(port=port, behind=behind, lax=lax)


FRONTS: dict[str, tuple[str, str, Lines]] = {
    "nginx": ("nginx", "-c", _nginx),
    "haproxy": ("haproxy", "-f", _haproxy),
    "haproxy that lets more through": ("haproxy", "-f", _lax_haproxy),
}


def program(name: str) -> str:
    """Return where a server is, which must be there; Debian keeps it out of a user's path."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    assert found, f"{name} is missing; .ci/servers installs it"
    return found


@asynccontextmanager
async def front(name: str, behind: int, folder: Path) -> AsyncIterator[int]:
    """Run a front before the port `behind`; yield its own port."""
    server, option, lines = FRONTS[name]
    port = free_port()
    file = folder / "front.conf"
    file.write_text(lines(folder, port, behind))
    process = await asyncio.create_subprocess_exec(
        program(server), option, str(file), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await until_open(port, process)
        yield port
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def until_open(port: int, process: asyncio.subprocess.Process) -> None:
    """Wait until the server takes connections."""
    async with asyncio.timeout(60):
        while True:
            assert process.returncode is None, "the front did not start"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
