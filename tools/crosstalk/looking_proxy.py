"""The proxy, which also notes when it looked at its upstream connections to write a request.

Between this look and the write are some microseconds, or a time slice of the kernel.
`python -m tools.crosstalk.looking_proxy FILE` serves and notes the times in the file.
"""

import asyncio
import mmap
import sys
import time
from pathlib import Path

from chat_proxy.cli.main import main
from chat_proxy.http.client.socket_state import SocketState

PORTS = 65_536
KEPT = 16
BYTES = 8


class Looks:
    """When a connection was looked at, for each of its last requests, shared through a file."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._times = memoryview(mmap.mmap(opened.fileno(), PORTS * KEPT * BYTES)).cast("Q")

    @staticmethod
    def create(file: Path) -> "Looks":
        """Make the file."""
        file.write_bytes(bytes(PORTS * KEPT * BYTES))
        return Looks(file)

    def at(self, port: int, number: int) -> int:
        """Return when the proxy looked to write the given request from a port; 0 if it did not."""
        return self._times[port * KEPT + number % KEPT]

    def note(self, port: int, number: int) -> None:
        """Note that the look for the given request from a port begins now."""
        self._times[port * KEPT + number % KEPT] = time.monotonic_ns()

    def forget(self, port: int) -> None:
        """Forget the looks of an earlier connection from the same port."""
        for number in range(KEPT):
            self._times[port * KEPT + number] = 0


def note_looks(looks: Looks) -> None:
    """Let every look be noted from now on."""
    ports: dict[int, int] = {}
    numbers: dict[int, int] = {}
    open_, look = SocketState.__init__, SocketState.has_input

    def opened(self: SocketState, transport: asyncio.BaseTransport) -> None:
        open_(self, transport)
        connection = transport.get_extra_info("socket")
        port = connection.getsockname()[1]
        ports[connection.fileno()] = port
        numbers[port] = 0
        looks.forget(port)

    def looked(self: SocketState) -> bool:
        port = ports[self._descriptor]
        numbers[port] += 1
        looks.note(port, numbers[port])
        return look(self)

    SocketState.__init__ = opened  # type: ignore[method-assign]
    SocketState.has_input = looked  # type: ignore[method-assign]


if __name__ == "__main__":
    note_looks(Looks(Path(sys.argv[1])))
    main(["serve"])
