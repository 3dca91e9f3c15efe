"""What the kernel knows about a connection, and the event loop does not."""

import asyncio
import fcntl
import select
import struct
import termios


class SocketState:
    """Look at the socket of an open connection; a closed one must not be looked at."""

    __slots__ = ("_descriptor", "_input")

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        self._descriptor: int = transport.get_extra_info("socket").fileno()
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
