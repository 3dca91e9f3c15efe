"""Row B32: thousands of idle connections are closed at nobody's expense."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from chat_proxy.http.client.pool import ConnectionPool
from chat_proxy.upstream.client import Call, Upstream, UpstreamPolicy
from tests.faults.faulty import whole
from tests.support.live import eventually

pytestmark = pytest.mark.anyio

CONNECTIONS = 2_000
KEPT_SECONDS = 60.0
# Of this thread alone, without what other processes take; closing all at once takes over 20 ms.
LONGEST_SECONDS = 0.01


@contextmanager
def answered_at_last(listener: socket.socket, count: int) -> Iterator[None]:
    """Accept so many connections, answer the request on each, and hold them."""
    with ExitStack() as stack:
        for _ in range(count):
            line = stack.enter_context(listener.accept()[0])
            line.sendall(whole("200 OK", b"{}"))
        yield


async def longest_iteration(pool: ConnectionPool) -> float:
    """Return the most time that one iteration of the loop took until all connections are closed."""
    longest = 0.0
    while pool._open:
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    return longest


async def test_b32_a_sweep_over_thousands_of_connections_delays_nobody() -> None:
    upstream = Upstream(UpstreamPolicy(None, 20, KEPT_SECONDS, 0, 1))
    upstream.open()
    pool = upstream._open_pool()
    with socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        asking = [
            asyncio.create_task(upstream.send(Call("POST", url, "/x", [])))
            for _ in range(CONNECTIONS)
        ]
        await eventually(lambda: len(pool._open) == CONNECTIONS, 30)
        with answered_at_last(listener, CONNECTIONS):
            for reply in await asyncio.gather(*asking):
                assert await reply.read_some() == b"{}"
            assert pool.idle.count == CONNECTIONS
            pool.idle._seconds = 0.0
            pool.idle._close_old()

            assert await longest_iteration(pool) < LONGEST_SECONDS
    await upstream.close()
