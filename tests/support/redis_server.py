"""Real Redis servers on free ports of the loopback: one, a cluster, or a master with a Sentinel."""

import asyncio
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import redis

# Below the ports that the system gives out, so that nobody else is given one of them meanwhile.
PORTS = range(10_000, 22_000)
SLOTS = 16_384


class RedisServer:
    """A redis-server of the test's own, which it may stop, freeze and start again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [program("redis-server"), *self.arguments]
        self._process = subprocess.Popen(command, cwd=self._folder, stdout=subprocess.DEVNULL)
        until(self.answers)

    @property
    def arguments(self) -> list[str]:
        """The command line: nothing is saved, nothing is read."""
        basic = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"]
        return [*basic, "--appendonly", "no", *self._options]

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Let it hold its connections and answer nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def answers(self) -> bool:
        with suppress(redis.ConnectionError):
            return bool(self.ask("PING"))
        return False

    def pass_time(self, seconds: float) -> None:
        """Bring the end of every key nearer, as if so many seconds had passed."""
        for name in self.ask("KEYS", "*"):
            left = self.ask("PTTL", name)
            if left >= 0:
                self.ask("PEXPIRE", name, max(0, left - int(seconds * 1_000)))

    def ask(self, *command: Any) -> Any:
        """Send it a command past the store."""
        with redis.Redis(port=self.port, protocol=2) as client:
            return client.execute_command(*command)


class SentinelServer(RedisServer):
    """A Sentinel that watches one master, quick to give it up."""

    def __init__(self, folder: Path, master: RedisServer) -> None:
        super().__init__(folder)
        self.service = "proxies"
        watched = f"sentinel monitor {self.service} 127.0.0.1 {master.port} 1"
        quick = f"sentinel down-after-milliseconds {self.service} 300"
        self._file = folder / "sentinel.conf"
        self._file.write_text(f"port {self.port}\nbind 127.0.0.1\n{watched}\n{quick}\n")

    @property
    def arguments(self) -> list[str]:
        return [str(self._file), "--sentinel"]


@contextmanager
def running_redis(folder: Path, *options: str) -> Iterator[RedisServer]:
    """Run one server until the block ends."""
    server = RedisServer(folder, *options)
    with stopping(server):
        yield server


@contextmanager
def stopping(server: RedisServer) -> Iterator[None]:
    """Start a server, and stop it when the block ends."""
    server.start()
    try:
        yield
    finally:
        server.stop()


@contextmanager
def running_cluster(folder: Path) -> Iterator[list[RedisServer]]:
    """Run a Redis Cluster of three masters until the block ends."""
    with ExitStack() as stack:
        servers = []
        for number in range(3):
            place = folder / f"node-{number}"
            place.mkdir()
            server = RedisServer(place, "--cluster-enabled", "yes")
            stack.enter_context(stopping(server))
            servers.append(server)
        addresses = [f"127.0.0.1:{server.port}" for server in servers]
        command = [program("redis-cli"), "--cluster", "create", *addresses, "--cluster-yes"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        until(lambda: all(b"cluster_state:ok" in state_of(server) for server in servers))
        yield servers


def state_of(server: RedisServer) -> bytes:
    """What a cluster's server thinks of the cluster."""
    lines = server.ask("CLUSTER INFO")
    return repr(lines).replace("': '", ":").encode()


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[int]:
    """Something on a port that answers everything the same way."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while await reader.read(65_536):
                writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def program(name: str) -> str:
    """Where a program is; its absence is a failure: nothing else shows what these tests do."""
    found = shutil.which(name)
    assert found, f"{name} is missing, and the tests of the Redis store need it: run .ci/servers"
    return found


def free_port() -> int:
    """A port that is free, as is the one 10,000 above it, where a cluster's servers meet."""
    for _ in range(1_000):
        port = random.choice(PORTS)
        if is_free(port) and is_free(port + 10_000):
            return port
    raise AssertionError("no port is free")


def is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def until(condition: Any, seconds: float = 60.0) -> None:
    """Wait until the condition holds; fail if it never does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)
