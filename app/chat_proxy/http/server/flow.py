"""Flow control: who sends too fast is not read for a while, who reads too slowly is waited for."""

import asyncio

from chat_proxy.http.write_batch import WriteBatch

# A body of which the app has not yet taken so much is not read on.
HIGH_WATER_BYTES = 65_536


class Flow:
    """Both directions of one connection."""

    __slots__ = (
        "_drained",
        "_loop",
        "_transport",
        "read_paused",
        "sent",
        "write_batch",
        "write_paused",
    )

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, write_batch: WriteBatch
    ) -> None:
        self._transport = transport
        self._loop = loop
        self.write_batch = write_batch
        self._drained: asyncio.Future[None] | None = None
        self.read_paused = False
        self.write_paused = False
        # Done for good: cheaper to await than a coroutine that has nothing to wait for.
        self.sent: asyncio.Future[None] = loop.create_future()
        self.sent.set_result(None)

    def pause_reading(self) -> None:
        """Read no more, if that is not so already."""
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on, if that is not so already."""
        if self.read_paused:
            self.read_paused = False
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Send bytes, together with what others write in this turn of the loop."""
        self.write_batch.send(self._transport, (data,))

    def write_eof(self) -> None:
        """Say that there is no more, behind all that was written."""
        self.write_batch.deliver()
        self._transport.write_eof()

    def close(self) -> None:
        """Close behind all that was written."""
        self.write_batch.deliver()
        self._transport.close()

    def abort(self) -> None:
        """Break the connection; what the client could have had already, it gets."""
        self.write_batch.deliver()
        self._transport.abort()

    def pause_writing(self) -> None:
        """Note that the client does not take what was written."""
        self.write_paused = True

    def resume_writing(self) -> None:
        """Note that it does again, and wake who waits for that."""
        self.write_paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    async def drain(self) -> None:
        """Wait until the client takes what was written; one task at a time."""
        if self.write_paused:
            self._drained = self._loop.create_future()
            await self._drained
