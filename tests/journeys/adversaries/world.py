"""A proxy between clients and an upstream, with a store and a clock that others meddle with."""

import asyncio
import json
import sqlite3
import tempfile
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any, TypeVar

from chat_proxy.store.memory import MemoryStore
from chat_proxy.store.sqlite.store import SqliteStore
from chat_proxy.upstream.breaker import Breakers
from tests.journeys.adversaries.upstream import Upstream
from tests.support.live import Proxy, RawClient, eventually, raw_client, running_proxy

WINDOW = 3_000
LONGEST_SECONDS = 30.0
"""For whatever happens in one step; none of them takes long."""
STORE_SECONDS = 0.02
BREAKER_FAILURES, BREAKER_SECONDS = 5, 30.0

T = TypeVar("T")


class World:
    """One event loop with everything in it; it stands still between two steps."""

    def __init__(self, *, on_disk: bool, wait: str, prepare: float) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="adversaries-")
        self._file = Path(self._folder.name) / "store.db"
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._lock: sqlite3.Connection | None = None
        self.skew_seconds = 0.0
        self.upstream = Upstream()
        self.proxy: Proxy = self.run(self._open(on_disk=on_disk, wait=wait, prepare=prepare))

    def run(self, step: Coroutine[Any, Any, T]) -> T:
        """Let the world go on until the step is done."""
        return self._loop.run_until_complete(asyncio.wait_for(step, LONGEST_SECONDS))

    async def connect(self) -> RawClient:
        """Return a new connection to the proxy, open until the world ends."""
        return await self._stack.enter_async_context(raw_client(self.proxy))

    async def _open(self, *, on_disk: bool, wait: str, prepare: float) -> Proxy:
        await self.upstream.listen()
        proxy = await self._stack.enter_async_context(
            running_proxy(
                self.upstream.url,
                store={"url": f"sqlite:///{self._file}" if on_disk else "memory:"},
                budget={"context_window": WINDOW, "prepare": prepare},
                summary={"timeout_seconds": 0.25, "wait": wait},
                upstream={"keep_alive_seconds": 0.5},
            )
        )
        self._bend_clocks(proxy)
        store = proxy.services.store._store
        if isinstance(store, SqliteStore):
            store._wait_seconds = STORE_SECONDS
        return proxy

    def _bend_clocks(self, proxy: Proxy) -> None:
        """Let every part that tells the time by a clock of its own tell the world's."""
        services = proxy.services
        parts: list[Any] = [
            services.compaction.summaries.jobs,
            services.compaction.checkpoints,
            services.compaction.last_seen,
        ]
        parts += [
            services.sizing.learned_windows,
            services.sizing.calibrations,
            services.store._store,
        ]
        for part in parts:
            honest = part._clock
            part._clock = lambda honest=honest: honest() + self.skew_seconds
        services.forwarding.upstream.breakers = Breakers(
            BREAKER_FAILURES, BREAKER_SECONDS, lambda: time.monotonic() + self.skew_seconds
        )

    # The store's adversary

    def lock_or_free_store(self) -> None:
        """Hold the file's lock as another process would, or let go; memory has no lock."""
        if self._lock is not None:
            self.free_store()
        elif self._file.exists():
            self._lock = sqlite3.connect(self._file, isolation_level=None, timeout=20)
            self._lock.execute("BEGIN IMMEDIATE")

    def free_store(self) -> None:
        """Let go of the lock."""
        if self._lock is not None:
            self._lock.execute("ROLLBACK")
            self._lock.close()
            self._lock = None

    def spoil_rows(self) -> None:
        """Make garbage of every value that is stored."""
        store = self.proxy.services.store._store
        if isinstance(store, MemoryStore):
            entries = store._rows._entries
            for key, ((_, expires), weight) in list(entries.items()):
                entries[key] = ((b'{"version": 1}', expires), weight)
        else:
            self._meddle("UPDATE rows SET value = x'7b7d'")

    def exchange_rows(self) -> None:
        """Give every row the value and the seal of another one of its kind."""
        self._meddle(
            "UPDATE rows SET (value, seal, expires) = (SELECT value, seal, expires FROM rows AS it "
            "WHERE it.kind = rows.kind AND it.key != rows.key ORDER BY it.key LIMIT 1) "
            "WHERE (SELECT count(*) FROM rows AS it WHERE it.kind = rows.kind) > 1"
        )

    def forget(self) -> None:
        """Take from the proxy what it remembers of checkpoints, as a restart does."""
        self.proxy.services.compaction.checkpoints._local.clear()
        self.proxy.services.compaction.checkpoints._asked.clear()

    def _meddle(self, statement: str) -> None:
        if self._file.exists() and self._lock is None:
            with closing(sqlite3.connect(self._file, isolation_level=None, timeout=20)) as file:
                file.execute(statement)

    # The end

    async def is_at_rest(self) -> bool:
        """Wait until the proxy answers nobody; tell whether it holds nothing of them."""
        services = self.proxy.services
        await eventually(lambda: not services.drain.running, seconds=LONGEST_SECONDS / 2)
        return services.admission.held_bytes == 0

    def close(self) -> None:
        """End it all."""
        self.free_store()
        self.upstream.leave()
        self.run(self._stack.aclose())
        self.run(eventually(lambda: not self.upstream.is_busy, seconds=LONGEST_SECONDS / 2))
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        self._folder.cleanup()


def body_of(messages: list[dict[str, Any]], **fields: Any) -> bytes:
    """Return a request."""
    return json.dumps({"model": "fake", "messages": messages, **fields}).encode()
