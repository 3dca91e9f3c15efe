"""A client's connection: its beginning, its end, and the requests on it."""

import asyncio
from contextlib import suppress

from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from chat_proxy.http.server.cycle import Cycle
from chat_proxy.http.server.flow import Flow
from chat_proxy.http.server.limits import ConnectionLimits
from chat_proxy.http.server.request_head import HeadReader
from chat_proxy.http.server.timeouts import give_up_unread
from chat_proxy.http.write_batch import write_batch_of

LINGER_SECONDS = 5.0


class Connection(HeadReader, asyncio.Protocol):
    """A protocol for uvicorn's server, which expects it in `connections` and its `tasks`.

    A request whose head has arrived has a cycle. `_arriving` is the one whose body is still to
    come, `_running` the one being answered, `_waiting` those after it. An idle connection has none,
    and holds nothing of the last request.
    """

    __slots__ = (
        "_arriving",
        "_client",
        "_running",
        "_server",
        "_waiting",
        "_write_batch",
        "flow",
        "loop",
        "server_state",
        "transport",
    )
    flow: Flow
    transport: asyncio.Transport

    def __init__(
        self,
        limits: ConnectionLimits,
        server_state: ServerState,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(limits)
        self.loop = loop
        self._write_batch = write_batch_of(loop)
        self.server_state = server_state
        self._server: tuple[str, int | None] | None = None
        self._client: tuple[str, int] | None = None
        self._arriving: Cycle | None = None
        self._running: Cycle | None = None
        self._waiting: list[Cycle] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection."""
        self.server_state.connections.add(self)  # type: ignore[arg-type]
        self.transport = transport
        self.flow = Flow(transport, self.loop, self._write_batch)
        self._server = get_local_addr(transport)
        self._client = get_remote_addr(transport)
        give_up_unread(transport, self._limits.stall_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the running request; those that wait after it are dropped."""
        self.server_state.connections.discard(self)
        running, self._running, self._arriving = self._running, None, None
        self._waiting.clear()
        if running is not None:
            running.disconnect()
        self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        del self.parser  # it refers to this connection

    def shutdown(self) -> None:
        """Close, after answering the requests that have arrived."""
        if self._running is None:
            self.flow.close()
        else:
            self._last_cycle(self._running).keep_alive = False

    def _last_cycle(self, running: Cycle) -> Cycle:
        return self._waiting[-1] if self._waiting else running

    def _close_slowly(self) -> None:
        """Half-close first, so that unread input does not reset the connection too early."""
        self.flow.resume_reading()
        with suppress(OSError):  # the client has broken it off, unnoticed so far
            self.flow.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def pause_writing(self) -> None:
        """Pause writing: the client does not read what was written."""
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        """Resume writing: the client reads again."""
        self.flow.resume_writing()
