"""What the kernel knows about a connection, and the event loop does not."""

import asyncio
import fcntl
import select
import socket
import struct
import termios

# Where the kernel puts the smoothed round-trip time, in microseconds (linux/tcp.h).
_ROUND_TRIP_AT = 68


class SocketState:
    """Look at the socket of an open connection; a closed one must not be looked at."""

    __slots__ = ("_descriptor", "_input", "round_trip_seconds")

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        connection = transport.get_extra_info("socket")
        self._descriptor: int = connection.fileno()
        self.round_trip_seconds = _round_trip_seconds(connection)
        self._input = select.poll()
        self._input.register(self._descriptor, select.POLLIN)

    def has_input(self) -> bool:
        """Return whether there is something to read, or the other side has closed."""
        return bool(self._input.poll(0))

    def unsent_bytes(self) -> int:
        """Return how much of what was written has not reached the other side; 0 if unknown.

        A transport with TLS does not tell what waits below it, and no transport what the kernel
        holds.
        """
        try:
            count = fcntl.ioctl(self._descriptor, termios.TIOCOUTQ, b"\0\0\0\0")
        except OSError:
            return 0
        return int(struct.unpack("i", count)[0])


def _round_trip_seconds(connection: socket.socket) -> float:
    """Return the round-trip time of a new connection, measured by its handshake; 0 if unknown."""
    if not hasattr(socket, "TCP_INFO"):
        return 0.0
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ROUND_TRIP_AT + 4)
    return float(struct.unpack_from("I", info, _ROUND_TRIP_AT)[0]) / 1_000_000
