"""A connection that ends: the answer gets its time, and a client that is gone is no mistake."""

import asyncio
import errno

import pytest
from uvicorn.server import ServerState

from chat_proxy.http.server import connection
from chat_proxy.http.server.connection import Connection
from chat_proxy.http.server.flow import Flow
from chat_proxy.http.server.limits import ConnectionLimits
from chat_proxy.http.write_batch import WriteBatch
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
    line = Connection(LIMITS, ServerState(), loop)
    line.transport, line.flow = transport, Flow(transport, loop, WriteBatch())

    line._close_slowly()

    await eventually(lambda: transport.is_aborted)
