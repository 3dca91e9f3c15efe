"""A connection that ends: the answer gets its time, and a client that is gone is no mistake."""

import asyncio
import errno

import pytest
from uvicorn.server import ServerState

from app.serving import connection
from app.serving.connection import Connection
from app.serving.flow import Flow
from app.serving.limits import ConnectionLimits
from app.upstream.outbox import Outbox
from tests.support.live import eventually

LIMITS = ConnectionLimits(1, 1, 1_024, 1_024, 10, 1, 1)


class Broken(asyncio.Transport):
    """A transport whose client has reset the connection, which nobody has read yet."""

    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False

    def write_eof(self) -> None:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.anyio
async def test_a_client_that_is_gone_is_closed_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "LINGER_SECONDS", 0.01)
    loop, transport = asyncio.get_running_loop(), Broken()
    line = Connection(LIMITS, ServerState(), loop, Outbox())
    line.transport, line.flow = transport, Flow(transport, loop, Outbox())

    line._close_slowly()

    await eventually(lambda: transport.is_aborted)
