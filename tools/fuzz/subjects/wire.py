"""Whole connections: whatever arrives, the answers are HTTP and the next client is served."""

import asyncio
import re
from contextlib import AsyncExitStack, suppress

from chat_proxy.telemetry.logs import configure_logging
from tests.support.fake_model import FakeModel, fake_model, polite
from tests.support.live import Proxy, chat_request, raw_client, running_proxy

_HEAD = re.compile(rb"HTTP/1\.1 [1-5]\d\d [^\r\n]*\r\n(?:[!-9;-~]+: ?[^\r\n\0]*\r\n)*\r\n")


class _Stage:
    """A proxy that lives as long as the process."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sent = 0

    def play(self, data: bytes) -> None:
        """Send the bytes, hang up the sending side, and look at all that comes back."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._loop.run_until_complete(self._open())
        self._loop.run_until_complete(asyncio.wait_for(self._send(data), 20))

    async def _open(self) -> None:
        configure_logging("error", "json")
        self._stack = stack = AsyncExitStack()
        self._model: FakeModel = await stack.enter_async_context(fake_model(polite))
        self._proxy: Proxy = await stack.enter_async_context(
            running_proxy(self._model.url, limits={"header_seconds": 0.2, "body_seconds": 0.2})
        )

    async def _send(self, data: bytes) -> None:
        self._model.requests.clear()
        async with raw_client(self._proxy) as client:
            with suppress(ConnectionError):
                await client.send(data)
                client.writer.write_eof()
            answers = await client.rest()
        assert not answers or _HEAD.match(answers), answers[:300]
        for received in self._model.requests:
            assert received.target.startswith(("/v1/", "/v1?")), received.target
            assert received.header("host") == f"127.0.0.1:{self._model.port}"
            assert received.header("transfer-encoding") is None
        self._sent += 1
        if self._sent % 20 == 0:
            await self._serve_the_next()

    async def _serve_the_next(self) -> None:
        async with raw_client(self._proxy) as client:
            await client.send(chat_request())
            assert (await client.answer()).status == 200


_STAGE = _Stage()


def send_any_bytes(data: bytes) -> None:
    """Send the bytes to a running proxy."""
    _STAGE.play(data)
