"""The upstream: accepts connections and lets each request's own misbehaviour answer it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import getmembers, iscoroutinefunction

from tools.crosstalk.ledger import Ledger
from tools.crosstalk.looking_proxy import Looks
from tools.crosstalk.upstream import endings, misbehaviours
from tools.crosstalk.upstream.line import Gone, Line
from tools.crosstalk.upstream.misbehaviours import Act, polite
from tools.crosstalk.upstream.open_lines import OpenLines
from tools.crosstalk.upstream.turn import Turn

RECEIVE_BUFFER_BYTES = 16 * 1024
"""So small that a long request cannot be sent to its end while nobody reads it."""
ACTS: dict[str, Act] = {
    **dict(getmembers(misbehaviours, iscoroutinefunction)),
    **dict(getmembers(endings, iscoroutinefunction)),
}
EARLY = frozenset(
    {
        *("early", "early_then_second", "early_and_never_read", "too_large_and_never_read"),
        *("early_half", "early_reset", "reset_within_request"),
    }
)
"""These answer while a long request is still arriving."""
OWN = {"listing": polite}
"""Requests of the proxy itself."""


class Upstream:
    """A model server that does what its prompts say."""

    def __init__(self, ledger: Ledger, looks: Looks) -> None:
        self.open_lines = OpenLines()
        self.lines = 0
        self.port = 0
        self._ledger = ledger
        self._looks = looks
        self._serving: set[asyncio.Task[None]] = set()

    def accept(self, listener: socket.socket) -> None:
        """Serve a new connection."""
        try:
            connection, _ = listener.accept()
        except OSError:  # it was closed before it was accepted
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lines += 1
        line = Line(self.lines, connection, self._ledger, self._looks)
        task = asyncio.create_task(self._serve(line))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, line: Line) -> None:
        self.open_lines.opened(line)
        try:
            while True:
                asked = await line.next_request()
                if asked.act not in EARLY:
                    await line.read_body()
                await (ACTS | OWN)[asked.act](Turn(line, asked, self.open_lines))
                line.answered = asked.number
        except Gone:
            return
        finally:
            self.open_lines.closed(line)
            line.close()

    async def stop(self) -> None:
        """End all connections."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)


@asynccontextmanager
async def running_upstream(ledger: Ledger, looks: Looks) -> AsyncIterator[Upstream]:
    """Run it on a free port until the block ends."""
    upstream = Upstream(ledger, looks)
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        listener.setblocking(False)
        upstream.port = listener.getsockname()[1]
        loop = asyncio.get_running_loop()
        loop.add_reader(listener, upstream.accept, listener)
        try:
            yield upstream
        finally:
            loop.remove_reader(listener)
            await upstream.stop()
