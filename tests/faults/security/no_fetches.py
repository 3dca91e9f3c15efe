"""Runs in a network of its own where every address is a trap: asks about images from all over.

`python -m tests.faults.security.no_fetches` prints whom the process connected to and what the
trap caught, as JSON.
"""

import asyncio
import json
import socket
import subprocess
import sys
from typing import Any

from tests.journeys.summaries.talking import turns
from tests.support.fake_model import Line, Received, fake_model, on_chat, polite
from tests.support.live import http_client, running_proxy

INSIDE = "169.254.169.254"
ADDRESSES = (
    f"http://{INSIDE}/latest/meta-data/iam/security-credentials/",
    "http://2852039166/latest/",
    "http://0xA9FEA9FE/",
    "http://0251.0376.0251.0376/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://10.0.0.1/a.png",
    "http://127.1:80/a.png",
    "http://localhost:80/a.png",
    "http://0/a.png",
    f"http://example.com\\@{INSIDE}/a.png",
    f"http://example.com@{INSIDE}/a.png",
    f"http://{INSIDE}.nip.io/rebinding.png",
    f"https://{INSIDE}/a.png",
    f"gopher://{INSIDE}:80/_GET%20/",
    f"ftp://{INSIDE}/a.png",
    f"//{INSIDE}/a.png",
    "file:///etc/passwd",
    "file://localhost/etc/passwd",
    "data:text/html,<script>fetch('http://10.0.0.1')</script>",
    "javascript:alert(1)",
    "\\\\10.0.0.1\\share\\a.png",
)
ROUTES = ("/v1/chat/completions", "/v1/chat/explain", "/v1/chat/compact")


class Trap:
    """Listens everywhere on the web's ports and counts who comes."""

    def __init__(self) -> None:
        self.caught = 0

    async def open(self) -> None:
        for port in (80, 443):
            await asyncio.start_server(self._catch, "0.0.0.0", port)

    async def _catch(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.caught += 1
        writer.close()


async def redirecting(received: Received, line: Line) -> None:
    """Send somebody elsewhere on cue."""
    if b"redirect-me" in received.body:
        await line.head(302, f"location: http://{INSIDE}/", "content-length: 0")
    else:
        await polite(received, line)


def asked_about(address: str) -> dict[str, Any]:
    """A request that names an address in every place for one."""
    part = {"type": "image_url", "image_url": {"url": address}}
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": address}}
    said: list[dict[str, Any]] = [
        {"role": "user", "content": [part, {"type": "text", "text": f"![x]({address})"}]},
        {"role": "assistant", "content": address, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": [part]},
        {"role": "user", "content": [part, {"type": "file", "file": {"file_data": address}}]},
    ]
    return {"model": "fake", "messages": [*turns(2), *said]}


async def look() -> dict[str, Any]:
    """Ask about every address on every route."""
    connected: list[Any] = []
    resolved: list[Any] = []

    def listen(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            connected.append(arguments[1])
        elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
            resolved.append(arguments[0])

    trap = Trap()
    await trap.open()
    statuses: list[int] = []
    sys.addaudithook(listen)
    async with (
        fake_model(on_chat(redirecting)) as model,
        running_proxy(model.url) as proxy,
        http_client(proxy) as client,
    ):
        for address in ADDRESSES:
            for route in ROUTES:
                answer = await client.post(route, json=asked_about(address))
                statuses.append(answer.status_code)
        statuses.append((await client.post(ROUTES[0], json=asked_about("redirect-me"))).status_code)
        ours = {model.port, proxy.port}
    told = {"statuses": statuses, "resolved": resolved, "caught": trap.caught}
    strangers = [it for it in connected if it[0] != "127.0.0.1" or it[1] not in ours]
    _, writer = await asyncio.open_connection(INSIDE, 80)
    await asyncio.sleep(0.1)
    writer.close()
    return {**told, "strangers": strangers, "trap_works": trap.caught == 1}


def main() -> None:
    """Make every address an address of this machine, and look."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(
        ["ip", "route", "add", "local", "0.0.0.0/0", "dev", "lo", "table", "local"], check=True
    )
    assert socket.if_nameindex() == [(1, "lo")]
    sys.stdout.write(json.dumps(asyncio.run(look())))


if __name__ == "__main__":
    main()
