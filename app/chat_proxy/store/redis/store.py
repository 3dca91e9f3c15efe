"""A store in Redis or Valkey, shared by all processes on all machines.

The time that a request waits for it is bounded. After a fault no request uses it until a
background probe succeeds.
"""

import asyncio
import secrets
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from chat_proxy.store.base import CLOCK_SLACK, MAX_TTL_SECONDS, Addresses, Rows, Seal
from chat_proxy.store.lease import Lease
from chat_proxy.store.outage import FIRST_PAUSE_SECONDS, Outage, StoreUnreachable
from chat_proxy.store.redis.faults import FAULTS, Fault
from chat_proxy.store.redis.servers import CONNECT_SECONDS, CONNECTIONS, Servers
from chat_proxy.store.sqlite.store import Notice

T = TypeVar("T")

WAIT_SECONDS = 0.25
PREFIX = "chat-proxy"
LEASE_KIND = "lease"
TOKEN_BYTES = 16

_HEAD = struct.Struct(">Q32s")
_RENEW = """local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1"


class RedisStore:
    """Stores sealed values under keys that expire; a failure is a miss and a notice."""

    def __init__(
        self,
        servers: Servers,
        secret: bytes,
        *,
        notice: Notice = lambda _operation, _reason: None,
        wait_seconds: float = WAIT_SECONDS,
        pause_seconds: float = FIRST_PAUSE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._servers = servers
        self._seal = Seal(secret)
        self._addresses = Addresses(secret)
        self._notice = notice
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._outage = Outage(self._is_reachable, pause_seconds)
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._tasks: set[asyncio.Task[object]] = set()
        self._is_closed = True

    @property
    def is_in_trouble(self) -> bool:
        """Whether an outage is in progress because the servers did not answer."""
        return self._outage.is_on

    @property
    def log_bytes(self) -> int:
        """Always 0: this process writes no log."""
        return 0

    async def open(self) -> None:
        """Connect; on failure raise StoreAway and keep trying in the background until closed."""
        self._is_closed = False
        fault = await self._ping()
        if fault is not None:
            self._handle("open", fault)
            raise StoreUnreachable(f"Redis: {fault.reason}")

    async def close(self) -> None:
        """Wait for pending writes and close the connections."""
        self._is_closed = True
        await self._outage.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._wait_seconds)
        with suppress(*FAULTS):
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._servers.close()

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        """Return the values that exist, are intact and have not expired."""
        if not keys:
            return {}
        nothing: list[bytes | None] = []
        names = [_name(kind, key) for key in keys]
        answers = await self._within_bound("get", nothing, partial(self._servers.get, names))
        rows: Rows = {}
        for key, sealed in zip(keys, answers, strict=False):
            value = None if sealed is None else self._unsealed(kind, key, sealed)
            if value is not None:
                rows[key] = value
        return rows

    async def put(
        self,
        kind: str,
        key: bytes,
        value: bytes,
        ttl_seconds: float,
        owner: str | None = None,  # noqa: ARG002 - rows in Redis are deleted only by their expiry
    ) -> bool:
        """Store a value and return whether it was stored in time."""
        work = partial(self._set, kind, key, value, min(ttl_seconds, MAX_TTL_SECONDS))
        return await self._within_bound("put", False, work)

    def address(self, *parts: bytes) -> bytes:
        """Return the key for these parts."""
        return self._addresses.of(*parts)

    async def lease(self, key: bytes, seconds: float) -> Lease | None:
        """Return the lease for this key, or None while another process holds it."""
        lease = RedisLease(self._lease_run, key, seconds)
        return lease if await lease.take() else None

    async def any_held(self, keys: list[bytes]) -> bool:
        """Return whether a process holds the lease for one of these keys."""
        if not keys:
            return False
        nothing: list[bytes | None] = []
        names = [_name(LEASE_KIND, key) for key in keys]
        holders = await self._within_bound("lease", nothing, partial(self._servers.get, names))
        return any(holder is not None for holder in holders)

    async def _lease_run(self, *command: str | bytes | int) -> object:
        """Run a command of a lease; a fault counts as success."""
        return await self._within_bound("lease", True, partial(self._servers.run, *command))

    async def _set(self, kind: str, key: bytes, value: bytes, seconds: float) -> bool:
        expires = int(self._clock() + seconds)
        sealed = _HEAD.pack(expires, self._seal.of(kind, key, value, expires)) + value
        await self._servers.run("SET", _name(kind, key), sealed, "PX", _milliseconds(seconds))
        return True

    def _unsealed(self, kind: str, key: bytes, sealed: bytes) -> bytes | None:
        """Return the value if its seal is valid for this key and it has not expired."""
        if len(sealed) >= _HEAD.size:
            expires, seal = _HEAD.unpack_from(sealed)
            value = sealed[_HEAD.size :]
            if self._seal.holds(seal, kind, key, value, expires):
                # Redis expires keys itself; this is for a value whose expiry was removed.
                return value if expires + CLOCK_SLACK > self._clock() else None
        self._notice("get", "integrity")
        return None

    async def _within_bound(
        self, operation: str, otherwise: T, work: Callable[[], Awaitable[T]]
    ) -> T:
        """Return the result of the work, run in a task, or `otherwise` after the time limit."""
        if self._is_closed or self._outage.is_on:
            return otherwise
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            done, _ = await asyncio.wait({task}, timeout=self._wait_seconds)
        except asyncio.CancelledError:
            # A write may continue for as long as the request would have waited for it.
            delay = 0.0 if operation == "get" else self._wait_seconds
            asyncio.get_running_loop().call_later(delay, task.cancel)
            raise
        result: T | Fault = task.result() if done else Fault(TimeoutError())
        task.cancel()
        if isinstance(result, Fault):
            self._handle(operation, result)
            return otherwise
        self._outage.server_answered()
        return result

    def _handle(self, operation: str, fault: Fault) -> None:
        """Report a fault, and start an outage unless the servers answered."""
        self._notice(operation, fault.reason)
        if not (fault.is_answer or self._is_closed):
            self._outage.begin()

    async def _guarded(self, work: Callable[[], Awaitable[T]]) -> T | Fault:
        """Return the fault instead of raising it in a task that may not be awaited."""
        try:
            async with self._slots:
                return await work()
        except FAULTS as error:
            return Fault(error)

    async def _ping(self) -> Fault | None:
        """Return the fault of the servers, if any; a refusal counts as an answer."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._servers.ping()
        except FAULTS as error:
            fault = Fault(error)
            return None if fault.is_answer else fault
        return None

    async def _is_reachable(self) -> bool:
        return await self._ping() is None


class RedisLease:
    """A lease in Redis: an expiring key whose value is the token of its holder."""

    def __init__(self, run: Callable[..., Awaitable[object]], key: bytes, seconds: float) -> None:
        self._run = run
        self._name = _name(LEASE_KIND, key)
        self._milliseconds = _milliseconds(seconds)
        self._token = secrets.token_bytes(TOKEN_BYTES)

    async def take(self) -> bool:
        """Take the lease and return whether it was free."""
        command = ("SET", self._name, self._token, "NX", "PX", self._milliseconds)
        return bool(await self._run(*command))

    async def renew(self) -> bool:
        """Extend the lease; return False only if another process holds it now."""
        command = ("EVAL", _RENEW, 1, self._name, self._token, self._milliseconds)
        return bool(await self._run(*command))

    async def release(self) -> None:
        """Release the lease, if this process still holds it."""
        await self._run("EVAL", _RELEASE, 1, self._name, self._token)


def _name(kind: str, key: bytes) -> str:
    return f"{PREFIX}:{kind}:{key.hex()}"


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1_000))
