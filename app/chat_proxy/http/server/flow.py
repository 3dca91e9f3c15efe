"""Flow control of a client connection, for reading and for writing."""

import asyncio

from chat_proxy.http.write_batch import WriteBatch

# Reading pauses while the app has not taken this much of a body.
HIGH_WATER_BYTES = 65_536


class Flow:
    """Pause and resume both directions of one connection."""

    __slots__ = (
        "_drained",
        "_loop",
        "read_paused",
        "sent",
        "transport",
        "write_batch",
        "write_paused",
    )

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, write_batch: WriteBatch
    ) -> None:
        self.transport = transport
        self._loop = loop
        self.write_batch = write_batch
        self._drained: asyncio.Future[None] | None = None
        self.read_paused = False
        self.write_paused = False
        # Always done: cheaper to await than a coroutine that has nothing to wait for.
        self.sent: asyncio.Future[None] = loop.create_future()
        self.sent.set_result(None)

    def pause_reading(self) -> None:
        """Pause reading, unless it is paused already."""
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading, if it is paused."""
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Send bytes, batched with other writes of this iteration of the loop."""
        self.write_batch.send(self.transport, (data,))

    def write_eof(self) -> None:
        """Half-close the connection after everything that was written."""
        self.write_batch.deliver()
        self.transport.write_eof()

    def close(self) -> None:
        """Close the connection after everything that was written."""
        self.write_batch.deliver()
        self.transport.close()

    def abort(self) -> None:
        """Break the connection, after delivering what is held in the write batch."""
        self.write_batch.deliver()
        self.transport.abort()

    def pause_writing(self) -> None:
        """Mark that the client does not read what was written."""
        self.write_paused = True

    def resume_writing(self) -> None:
        """Mark that the client reads again, and wake the waiting task."""
        self.write_paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    async def drain(self) -> None:
        """Wait until the client reads what was written; for one task at a time."""
        if self.write_paused:
            self._drained = self._loop.create_future()
            await self._drained
