"""Idle upstream connections that are too old: how long the loop is busy while they are closed."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chat_proxy.upstream.client import Call, Reply, Upstream, UpstreamPolicy
from tests.support.command import ROOT

AT_ONCE = 500
KEPT_SECONDS = 600.0


@asynccontextmanager
async def holder() -> AsyncIterator[str]:
    """Run an upstream that answers once on each connection and holds it; give its base URL."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tools.crowds.holder"), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}/v1"
    finally:
        process.kill()
        await process.wait()


async def longest_sweep_step(count: int) -> float:
    """Return the most time that one iteration of the loop takes while so many are closed.

    It is the time of this thread alone, without what other processes take.
    """
    upstream = Upstream(UpstreamPolicy(None, 20, KEPT_SECONDS, 0, 1))
    upstream.open()
    pool = upstream._open_pool()
    async with holder() as url:
        replies: list[Reply] = []
        while len(replies) < count:
            some = range(min(AT_ONCE, count - len(replies)))
            calls = (upstream.send(Call("POST", url, "/x", [])) for _ in some)
            replies += await asyncio.gather(*calls)
        for reply in replies:
            assert await reply.read_some() == b"{}"
        assert pool.idle.count == count
        pool.idle._seconds = 0.0
        began = time.thread_time()
        pool.idle._close_old()
        longest = time.thread_time() - began
        while pool._open:
            began = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - began)
    await upstream.close()
    return longest
