"""The floor of Python: the smallest honest streaming relay on uvicorn and aiohttp.

`python -m bench.traffic.bare_relay PORT UPSTREAM_URL`. It reads the request whole, as chat-proxy
must, and does nothing else: no routing, no limits, no counting, no watch for disconnects.
"""

import sys
from typing import Any

import aiohttp
import uvicorn

_NOT_SENT_UP = {b"host", b"connection", b"content-length", b"transfer-encoding"}
_NOT_SENT_BACK = {b"connection", b"keep-alive", b"transfer-encoding"}


class BareRelay:
    """An ASGI application that sends everything to one upstream."""

    def __init__(self, upstream_url: str) -> None:
        self._upstream_url = upstream_url
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Relay one request; chunks leave as they come."""
        session = self._open_session()
        headers = [(n.decode(), v.decode()) for n, v in scope["headers"] if n not in _NOT_SENT_UP]
        url, body = self._upstream_url + scope["path"], await _whole_body(receive)
        async with session.request(scope["method"], url, data=body, headers=headers) as reply:
            kept = [(n, v) for n, v in reply.raw_headers if n.lower() not in _NOT_SENT_BACK]
            start = {"type": "http.response.start", "status": reply.status, "headers": kept}
            await send(start)
            async for chunk in reply.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session


async def _whole_body(receive: Any) -> bytes:
    parts: list[bytes] = []
    more = True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


if __name__ == "__main__":
    uvicorn.run(
        BareRelay(sys.argv[2]),
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        server_header=False,
        date_header=False,
        log_level="warning",
    )
