"""A store in Redis or Valkey, shared by all processes of all machines.

A request waits for it no longer than the bound. After a fault nobody asks it until it is back,
which is found out behind the scenes.
"""

import asyncio
import secrets
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from chat_proxy.store.base import CLOCK_SLACK, LONGEST_LIFE, Addresses, Rows, Seal
from chat_proxy.store.lease import Lease
from chat_proxy.store.outage import FIRST_PAUSE_SECONDS, Outage, StoreAway
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
    """Keeps sealed values under expiring keys; what fails is a miss and a notice."""

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
        self._outage = Outage(self._is_there, pause_seconds)
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._tasks: set[asyncio.Task[object]] = set()
        self._is_closed = True

    @property
    def is_in_trouble(self) -> bool:
        """Whether the servers are left alone because they did not answer."""
        return self._outage.is_on

    @property
    def log_bytes(self) -> int:
        """Nothing: whatever the servers write down is theirs."""
        return 0

    async def open(self) -> None:
        """Connect; raise StoreAway if that cannot be, and go on trying until it is closed."""
        self._is_closed = False
        fault = await self._ping()
        if fault is not None:
            self._suffer("open", fault)
            raise StoreAway(f"Redis: {fault.reason}")

    async def close(self) -> None:
        """Wait for what is being written, and close the connections."""
        self._is_closed = True
        await self._outage.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._wait_seconds)
        with suppress(*FAULTS):
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._servers.close()

    async def get_many(self, kind: str, keys: list[bytes]) -> Rows:
        """Return the values that are there, whole and not expired."""
        if not keys:
            return {}
        nothing: list[bytes | None] = []
        names = [_name(kind, key) for key in keys]
        answers = await self._within_bound("get", nothing, partial(self._servers.get, names))
        rows: Rows = {}
        for key, sealed in zip(keys, answers, strict=False):
            value = None if sealed is None else self._opened(kind, key, sealed)
            if value is not None:
                rows[key] = value
        return rows

    async def put(
        self,
        kind: str,
        key: bytes,
        value: bytes,
        ttl_seconds: float,
        owner: str | None = None,  # noqa: ARG002 - rows of Redis go by their expiry
    ) -> bool:
        """Keep a value; return whether it was kept in time."""
        work = partial(self._set, kind, key, value, min(ttl_seconds, LONGEST_LIFE))
        return await self._within_bound("put", False, work)

    def address(self, *parts: bytes) -> bytes:
        """Return the key that stands for these parts."""
        return self._addresses.of(*parts)

    async def lease(self, key: bytes, seconds: float) -> Lease | None:
        """Return the lease of this key, or None while somebody else holds it."""
        lease = RedisLease(self._lease_run, key, seconds)
        return lease if await lease.take() else None

    async def _lease_run(self, *command: str | bytes | int) -> object:
        """Run a lease's command; a fault speaks for the one who asks."""
        return await self._within_bound("lease", True, partial(self._servers.run, *command))

    async def _set(self, kind: str, key: bytes, value: bytes, seconds: float) -> bool:
        expires = int(self._clock() + seconds)
        sealed = _HEAD.pack(expires, self._seal.of(kind, key, value, expires)) + value
        await self._servers.run("SET", _name(kind, key), sealed, "PX", _milliseconds(seconds))
        return True

    def _opened(self, kind: str, key: bytes, sealed: bytes) -> bytes | None:
        """Return the value, if this deployment has put it under this key."""
        if len(sealed) >= _HEAD.size:
            expires, seal = _HEAD.unpack_from(sealed)
            value = sealed[_HEAD.size :]
            if self._seal.holds(seal, kind, key, value, expires):
                # Redis counts the time; this is for a value whose expiry was taken away.
                return value if expires + CLOCK_SLACK > self._clock() else None
        self._notice("get", "integrity")
        return None

    async def _within_bound(
        self, operation: str, otherwise: T, work: Callable[[], Awaitable[T]]
    ) -> T:
        """Do the work in a task of its own and wait for it no longer than the bound."""
        if self._is_closed or self._outage.is_on:
            return otherwise
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            done, _ = await asyncio.wait({task}, timeout=self._wait_seconds)
        except asyncio.CancelledError:
            # What is being written may go on for as long as anybody would have waited.
            patience = 0.0 if operation == "get" else self._wait_seconds
            asyncio.get_running_loop().call_later(patience, task.cancel)
            raise
        result: T | Fault = task.result() if done else Fault(TimeoutError())
        task.cancel()
        if isinstance(result, Fault):
            self._suffer(operation, result)
            return otherwise
        self._outage.server_answered()
        return result

    def _suffer(self, operation: str, fault: Fault) -> None:
        """Tell of a fault, and leave the servers alone unless they can do other things."""
        self._notice(operation, fault.reason)
        if not (fault.is_answer or self._is_closed):
            self._outage.begin()

    async def _guarded(self, work: Callable[[], Awaitable[T]]) -> T | Fault:
        """Return the fault instead of raising it into a task that nobody may wait for."""
        try:
            async with self._slots:
                return await work()
        except FAULTS as error:
            return Fault(error)

    async def _ping(self) -> Fault | None:
        """Return what is wrong with the servers, if anything; even a refusal is an answer."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._servers.ping()
        except FAULTS as error:
            fault = Fault(error)
            return None if fault.is_answer else fault
        return None

    async def _is_there(self) -> bool:
        return await self._ping() is None


class RedisLease:
    """A key that holds its holder's token for a while."""

    def __init__(self, run: Callable[..., Awaitable[object]], key: bytes, seconds: float) -> None:
        self._run = run
        self._name = _name(LEASE_KIND, key)
        self._milliseconds = _milliseconds(seconds)
        self._token = secrets.token_bytes(TOKEN_BYTES)

    async def take(self) -> bool:
        """Take the lease; return whether it was free."""
        command = ("SET", self._name, self._token, "NX", "PX", self._milliseconds)
        return bool(await self._run(*command))

    async def renew(self) -> bool:
        """Begin the while anew; return False only if somebody else holds the lease by now."""
        command = ("EVAL", _RENEW, 1, self._name, self._token, self._milliseconds)
        return bool(await self._run(*command))

    async def release(self) -> None:
        """Let others have it, if it is still held."""
        await self._run("EVAL", _RELEASE, 1, self._name, self._token)


def _name(kind: str, key: bytes) -> str:
    return f"{PREFIX}:{kind}:{key.hex()}"


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1_000))
